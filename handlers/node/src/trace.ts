/** W3C trace context: the trace that a message belongs to. */

import { randomBytes } from 'node:crypto';

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/**
 * The trace that the producer of a message has begun.
 *
 * Programs with OpenTelemetry pass `headers()` to `propagation.extract()`. Programs without a tracing library send
 * `child().headers()` with their own requests.
 */
export class TraceContext {
  constructor(
    readonly traceId: string,
    readonly parentId: string,
    readonly flags = '01',
    readonly state?: string,
  ) {}

  /** The context of these headers; undefined if they are absent or not valid. */
  static parse(traceparent?: string, tracestate?: string): TraceContext | undefined {
    const [, version, traceId = '', parentId = '', flags, rest] = TRACEPARENT.exec(traceparent ?? '') ?? [];
    if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) {
      return undefined;
    }
    return ZEROS.test(traceId) || ZEROS.test(parentId)
      ? undefined
      : new TraceContext(traceId, parentId, flags, tracestate);
  }

  get sampled(): boolean {
    return (Number.parseInt(this.flags, 16) & 1) === 1;
  }

  /** The same trace with a new span as the parent. */
  child(): TraceContext {
    return new TraceContext(this.traceId, randomBytes(8).toString('hex'), this.flags, this.state);
  }

  /** `traceparent` and, if there is one, `tracestate`. */
  headers(): Record<string, string> {
    const traceparent = `00-${this.traceId}-${this.parentId}-${this.flags}`;
    return this.state ? { traceparent, tracestate: this.state } : { traceparent };
  }
}
