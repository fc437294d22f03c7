/** Typed data: any schema that follows Standard Schema (zod, valibot, arktype). Imports none of them. */

import type { InboxEvent } from './event.js';
import { Dead } from './verdicts.js';

const PLACES_MAX = 3;

/** Why the data does not fit. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** What a schema returns. */
export type SchemaResult<Output> =
  { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly SchemaIssue[] };

/** A schema by https://standardschema.dev, version 1: of zod, valibot, arktype and others. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

export function isSchema(value: unknown): value is StandardSchema {
  const standard = (value as StandardSchema | undefined)?.['~standard'];
  return typeof standard?.validate === 'function';
}

/** Replaces the data of the event by the value of the schema. Dead if it does not fit: another attempt would not help. */
export async function applySchema(schema: StandardSchema, event: InboxEvent): Promise<void> {
  if (event.isTombstone || Buffer.isBuffer(event.data)) {
    throw misfit(event.isTombstone ? 'the message has no data' : 'the data is no JSON');
  }
  const result = await schema['~standard'].validate(event.data);
  if (result.issues !== undefined) {
    throw misfit(result.issues.slice(0, PLACES_MAX).map(textOfIssue).join('; '));
  }
  (event as { data: unknown }).data = result.value;
}

function misfit(why: string): Dead {
  return new Dead(`the data does not fit: ${why}`, { code: 'DATA' });
}

function textOfIssue({ message, path = [] }: SchemaIssue): string {
  const steps = path.map((step) => `/${String(typeof step === 'object' ? step.key : step)}`);
  return steps.length > 0 ? `${steps.join('')}: ${message}` : message;
}
