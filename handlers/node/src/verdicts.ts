/** Verdicts: what a function says about a message, and how an error becomes one. */

import { inspect } from 'node:util';
import { stringify } from './numbers.js';

const REASON_MAX = 4096;
const CODE_MAX = 64;
const RESULT_MAX = 1 << 20; // inboxd stores no longer one
const EMIT_MAX = 8 << 20;
const AWAY_DELAY_MS = 1000;
const CLAIM_LOST = 'IB001';
const CAUSES_MAX = 20;
// SQLSTATEs that the message has not caused: connection, standby, deadlock, no resources, a lock of others, shutdown.
const AWAY = /^(08|25006|40|53|55006|55P03|57P)/;

/** The reason, as every error has it, and more of a {@link Verdict}. */
export interface VerdictOptions extends ErrorOptions {
  /** Groups errors, for operators. */
  code?: string;
}

export interface RetryOptions extends VerdictOptions {
  /** Milliseconds until the next attempt. Without it: the backoff of inboxd. */
  delayMs?: number;
}

/** Base of the errors that are verdicts. A function throws or returns them. */
export abstract class Verdict extends Error {
  /** As in the answer to inboxd. */
  abstract readonly status: string;
  /** Milliseconds until the message comes again; undefined: inboxd decides. */
  readonly delayMs: number | undefined;
  readonly code: string | undefined;

  constructor(reason?: string, { delayMs, code, ...options }: RetryOptions = {}) {
    super(reason, options);
    this.delayMs = delayMs;
    this.code = code;
  }
}

/** The attempt failed. The message comes again after `delayMs`, or after the backoff of inboxd. */
export class Retry extends Verdict {
  static {
    Retry.prototype.name = 'Retry';
  }

  readonly status = 'retry';
}

/** The message can never be processed. It does not come again unless an operator replays it. */
export class Dead extends Verdict {
  static {
    Dead.prototype.name = 'Dead';
  }

  readonly status = 'dead';

  constructor(reason?: string, options?: VerdictOptions) {
    super(reason, options);
  }
}

/** Not now: the message comes again after `delayMs` (100 at least). This spends no attempt. */
export class Snooze extends Verdict {
  static {
    Snooze.prototype.name = 'Snooze';
  }

  readonly status = 'snooze';

  constructor(delayMs?: number, reason?: string, options?: VerdictOptions) {
    super(reason, { ...options, delayMs });
  }
}

/** The function did not try the message. It comes again, and nothing is counted. */
export class Skip extends Verdict {
  static {
    Skip.prototype.name = 'Skip';
  }

  readonly status = 'skipped';
}

/** The database failed, not the message. */
export class DatabaseAway extends Snooze {
  static {
    DatabaseAway.prototype.name = 'DatabaseAway';
  }

  constructor(cause: unknown) {
    super(AWAY_DELAY_MS, textOf(cause), { cause, code: sqlstateOf(cause) ?? 'DATABASE_AWAY' });
  }
}

/** Why `delivery.signal` was aborted: inboxd does not wait for an answer any more. */
export class Cancelled extends Error {
  static {
    Cancelled.prototype.name = 'Cancelled';
  }

  constructor(
    /** `timeout`, `lease_lost`, `shutdown` or `connection_lost`. */
    readonly reason: string,
  ) {
    super(`the delivery was cancelled: ${reason}`);
  }
}

/** The claim of the delivery is lost (SQLSTATE IB001). The transaction must roll back, so let this error pass. */
export class ClaimLost extends Error {
  static {
    ClaimLost.prototype.name = 'ClaimLost';
  }

  /** The claim that is lost, one of a batch. */
  readonly claim: string | undefined;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.claim = /claim (\S+) is lost/.exec(message)?.[1];
  }
}

/** An event that inboxd publishes when it stores the verdict. It needs a `topic` or an `aggregate`. */
export interface Emit {
  type: string;
  topic?: string;
  aggregate?: string;
  key?: string;
  /** A JSON value, or bytes. Without it: a tombstone. */
  data?: unknown;
  headers?: Record<string, string>;
  id?: string;
  source?: string;
  subject?: string;
}

/** The message is processed, with a result to store in the row, and events to publish. A function returns it. */
export class Done {
  constructor(
    readonly result?: unknown,
    readonly emit: readonly Emit[] = [],
  ) {}

  /** @internal What a function has returned, as one type. */
  static of(returned: unknown): Done {
    return returned instanceof Done ? returned : new Done(isPlain(returned) ? returned : undefined);
  }
}

/** False for instances of classes without toJSON(). A short arrow function often returns what a driver has returned. */
function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return true;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || 'toJSON' in value;
}

/** A function returns this after it has called `inbox.complete()` by itself, in a transaction that has committed. */
export const SETTLED: unique symbol = Symbol('inboxd.SETTLED');

/** The members of an answer as JSON. */
export interface Answer {
  readonly members: string;
  /** Whether later messages of the key may be processed: done, dead or settled. */
  readonly finished: boolean;
  /** What is sent if the line would be too long, for an answer that can be long. */
  readonly short?: Answer;
}

const DONE: Answer = { members: '"status":"done"', finished: true };
const SETTLED_ANSWER: Answer = { members: '"status":"settled"', finished: true };
export const SKIPPED: Answer = { members: '"status":"skipped"', finished: false };
const WITHOUT_RESULT: Answer = {
  members: '"status":"done","result":{"inboxd":"result not stored: the answer of the batch is too long"}',
  finished: true,
};

/** The value as JSON. TypeError if it is none; undefined, functions and symbols are none. */
export function toJSON(value: unknown): string {
  const text = stringify(value);
  if (text === undefined) {
    throw new TypeError(`${typeof value} is not a JSON value`);
  }
  return text;
}

/** The events as the member `emit` of an answer, and as the argument of `inbox.complete()`. */
export function emitToJSON(emit: readonly Emit[]): string {
  const events = emit.map(({ data, ...members }) => {
    if (data instanceof Uint8Array) {
      return toJSON({ ...members, data_base64: Buffer.from(data).toString('base64') });
    }
    if (typeof data === 'function' || typeof data === 'symbol' || typeof (data as any)?.toJSON === 'function') {
      toJSON(data); // what is no JSON would be left out, and without data the event is a tombstone
    }
    return toJSON({ ...members, data });
  });
  return `[${events.join(',')}]`;
}

/** A generator does nothing until somebody asks it for values, so its message would be done without any work. */
export function refuseGenerator(returned: unknown): void {
  if (/^\[object (Async)?Generator\]$/.test(Object.prototype.toString.call(returned))) {
    throw new TypeError('the function returned a generator, which does not run by itself: use an async function');
  }
}

/**
 * The answer for what a function has returned. An error if the events to publish are not JSON, or too long.
 *
 * @param stored what inbox.complete() has stored, if it is a {@link Done}
 */
export function answerTo(returned: unknown, completed: boolean, stored?: unknown): Answer {
  if (returned instanceof Verdict) {
    return answerWith(returned.status, returned.message, returned.delayMs, returned.code);
  }
  if (completed || returned === SETTLED) {
    if (returned instanceof Done && returned.emit.length > 0 && returned !== stored) {
      throw new TypeError('the events of Done are lost, because the message is completed: give them to complete()');
    }
    return SETTLED_ANSWER;
  }
  if (returned === undefined) {
    return DONE;
  }
  if (typeof returned === 'object') {
    refuseGenerator(returned);
  }
  const { result, emit } = Done.of(returned);
  let members = DONE.members;
  if (result !== undefined) {
    members += `,"result":${resultToJSON(result)}`;
  }
  if (emit.length > 0) {
    const events = emitToJSON(emit);
    if (events.length > EMIT_MAX) {
      throw new RangeError(`the events to publish have ${events.length} characters, more than ${EMIT_MAX}`);
    }
    members += `,"emit":${events}`;
  }
  // Without its events the message would not be done. It comes again, perhaps in a smaller batch.
  return { members, finished: true, short: emit.length > 0 ? SKIPPED : WITHOUT_RESULT };
}

/** The answer for an error: a verdict, a failure that the message did not cause, or a retry. */
export function answerToError(error: unknown): Answer {
  const verdict = verdictIn(error);
  if (verdict !== undefined) {
    return answerTo(verdict, false);
  }
  if (isClaimLost(error)) {
    // The answer does not matter any more. This one makes inboxd look at the row at once.
    return { members: SETTLED_ANSWER.members, finished: false };
  }
  if (isAway(error)) {
    return answerTo(new DatabaseAway(error), false);
  }
  return answerWith('retry', textOf(error), undefined, codeOf(error));
}

/** The error and what frameworks keep in it: causes, the errors of an AggregateError, the error of the driver. */
function causesOf(error: unknown): unknown[] {
  const found = [error];
  for (let index = 0; index < found.length && found.length < CAUSES_MAX; index++) {
    const { cause, errors, original, driverError } = (found[index] ?? {}) as Record<string, unknown>;
    const inside = [cause, ...(Array.isArray(errors) ? errors : []), original, driverError];
    found.push(...inside.filter((one) => typeof one === 'object' && one !== null && !found.includes(one)));
  }
  return found;
}

/** The verdict that was thrown, perhaps wrapped by a framework. */
export function verdictIn(error: unknown): Verdict | undefined {
  return error instanceof Verdict ? error : causesOf(error).find((cause) => cause instanceof Verdict);
}

export function isClaimLost(error: unknown): boolean {
  return verdictIn(error) === undefined && claimLostIn(error) !== undefined;
}

/** The lost claim in an error, perhaps wrapped by a framework. */
export function claimLostIn(error: unknown): ClaimLost | undefined {
  const causes = causesOf(error);
  const lost = causes.find((cause): cause is ClaimLost => cause instanceof ClaimLost);
  const driver = causes.find((cause) => ownSqlstate(cause) === CLAIM_LOST);
  if (lost !== undefined || driver === undefined) {
    return lost;
  }
  return new ClaimLost((driver as Error).message, { cause: driver });
}

/** True if the database caused the failure, not the message: such an attempt is not counted. */
export function isAway(error: unknown): boolean {
  const verdict = verdictIn(error);
  return verdict === undefined ? AWAY.test(sqlstateOf(error) ?? '') : verdict instanceof DatabaseAway;
}

/** The SQLSTATE of an error of PostgreSQL, perhaps wrapped by a framework. */
export function sqlstateOf(error: unknown): string | undefined {
  return ownSqlstate(causesOf(error).find((cause) => ownSqlstate(cause) !== undefined));
}

/** Only errors of PostgreSQL have a severity. */
function ownSqlstate(error: unknown): string | undefined {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown };
  return typeof code === 'string' && typeof severity === 'string' ? code : undefined;
}

export function textOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return typeof error === 'string' ? error : inspect(error, { depth: 0 });
  }
  return error.message ? `${error.name}: ${error.message}` : error.name;
}

function codeOf(error: unknown): string | undefined {
  const sqlstate = sqlstateOf(error);
  if (sqlstate !== undefined) {
    return sqlstate;
  }
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : error instanceof Error ? error.name : undefined;
}

function answerWith(status: string, reason: string, delayMs?: number, code?: string): Answer {
  const members: Record<string, unknown> = { status };
  if (delayMs !== undefined) {
    members.delay_ms = Math.max(Math.round(delayMs), 0);
  }
  if (reason) {
    members.reason = cut(reason, REASON_MAX);
  }
  if (code) {
    members.code = cut(code, CODE_MAX);
  }
  return { members: toJSON(members).slice(1, -1), finished: status === 'dead' };
}

/** Cuts between characters: half of a surrogate pair could not be stored. */
function cut(text: string, max: number): string {
  return text.length <= max ? text : text.slice(0, max).replace(/[\uD800-\uDBFF]$/, '');
}

/** The result as JSON. One that is not JSON does not change the verdict, because the work is done. */
function resultToJSON(value: unknown): string {
  let why: string;
  try {
    const text = toJSON(value);
    if (text.length <= RESULT_MAX) {
      return text;
    }
    why = `${text.length} characters`;
  } catch (error) {
    why = textOf(error);
  }
  return toJSON({ inboxd: `result not stored: ${why}` });
}
