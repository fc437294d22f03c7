/** The event of a message: a CloudEvent. */

import { TraceContext } from './trace.js';

/** The members of an event on the wire: CloudEvents in JSON format. */
export type EventMembers = Record<string, any>;

/**
 * A CloudEvent. The usual attributes are properties; all of them are in `attributes`.
 *
 * `source` and `id` together identify the message. They are the same at each delivery.
 */
export class InboxEvent<Data = any> {
  readonly #members: EventMembers;

  /** The payload: a JSON value, or a Buffer if the payload is not JSON, or undefined (see `isTombstone`). */
  readonly data: Data;

  /** @internal */
  constructor(members: EventMembers) {
    this.#members = members;
    const encoded = members.data_base64;
    this.data = encoded == null ? members.data : Buffer.from(encoded, 'base64');
  }

  get id(): string {
    return this.#members.id ?? '';
  }

  get source(): string {
    return this.#members.source ?? '';
  }

  /** Empty if the message has no type. */
  get type(): string {
    return this.#members.type ?? '';
  }

  get subject(): string | undefined {
    return this.#members.subject ?? undefined;
  }

  /** Undefined also if it is not a time that CloudEvents allows. */
  get time(): Date | undefined {
    const time = new Date(this.#members.time ?? NaN);
    return Number.isNaN(time.getTime()) ? undefined : time;
  }

  /** True if the record had no value. A JSON `null` is a value. */
  get isTombstone(): boolean {
    return !('data' in this.#members) && this.#members.data_base64 == null;
  }

  /** The topic in Kafka. */
  get topic(): string {
    return this.#members.kafkatopic ?? '';
  }

  get partition(): number {
    return this.#members.kafkapartition ?? 0;
  }

  /** As a text, because it has 64 bits. */
  get offset(): string {
    return this.#members.kafkaoffset ?? '0';
  }

  /** The key of the record: a text, or a Buffer if it is not UTF-8, or undefined. */
  get key(): string | Buffer | undefined {
    const encoded = this.#members.partitionkeybase64;
    return encoded == null ? (this.#members.partitionkey ?? undefined) : Buffer.from(encoded, 'base64');
  }

  /** The trace that the producer has begun. */
  get trace(): TraceContext | undefined {
    return TraceContext.parse(this.#members.traceparent, this.#members.tracestate);
  }

  /** All attributes as CloudEvents names them, also those that the producer has added: `event.attributes.myextension`. */
  get attributes(): Record<string, any> {
    const { data, data_base64, ...attributes } = this.#members;
    return attributes;
  }

  /** The event in the JSON format of CloudEvents. */
  toJSON(): Record<string, any> {
    return this.#members;
  }

  /** This event as the type of the package `cloudevents`: `event.toCloudEvent(CloudEvent)`. */
  toCloudEvent<T>(CloudEvent: new (event: any, strict?: boolean) => T): T {
    return new CloudEvent({ ...this.attributes, ...(this.isTombstone ? {} : { data: this.data }) }, false);
  }
}
