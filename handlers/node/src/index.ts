/**
 * Handlers for inboxd: each message of Kafka once, with effects that happen exactly once.
 *
 * Start with {@link Handler}. A function gets a {@link Delivery}, which has the {@link InboxEvent}. It returns a result, or
 * throws {@link Retry}, {@link Dead} or {@link Snooze}.
 *
 * @packageDocumentation
 */

export type { Executor, PooledClient, TransactionClient, TransactionOptions, TransactionPool } from './completion.js';
export type { Batch, Delivery, Header } from './delivery.js';
export type { OnError } from './dispatcher.js';
export type { InboxEvent } from './event.js';
export {
  type BatchFunction,
  type BatchOptions,
  Handler,
  type HandlerOptions,
  type MessageFunction,
  Refused,
} from './handler.js';
export type { LargeNumbers } from './numbers.js';
export type { Subscription, TypedSubscription } from './routes.js';
export type { SchemaIssue, SchemaResult, StandardSchema } from './schema.js';
export type { Logger } from './session.js';
export { TraceContext } from './trace.js';
export {
  Cancelled,
  ClaimLost,
  Dead,
  Done,
  type Emit,
  Retry,
  type RetryOptions,
  SETTLED,
  Skip,
  Snooze,
  Verdict,
  type VerdictOptions,
} from './verdicts.js';
export { VERSION } from './version.js';
