/** Which function gets a message: the one with the most specific subscription, by the rules of inboxd. */

import { isSchema, type StandardSchema } from './schema.js';

/** The messages that a function gets. Without members: every message. */
export interface Subscription {
  /** A topic of Kafka, whole. Without it: any topic. */
  topic?: string;
  /** Types of events. One that ends with `*` is a prefix. Without it: any type, also messages that have none. */
  types?: string | readonly string[];
}

/** A subscription, and the schema of the data. */
export interface TypedSubscription<Data> extends Subscription {
  /** Of zod, or any other Standard Schema. A message whose data does not fit is dead, with the code DATA. */
  schema: StandardSchema<Data>;
}

export interface Route {
  /** Undefined: any topic. */
  readonly topic: string | undefined;
  /** Undefined: any type. It may end with `*`. */
  readonly type: string | undefined;
  readonly function: (argument: any) => unknown;
  readonly takesBatch: boolean;
  readonly schema: StandardSchema | undefined;
}

const CACHE_MAX = 10_000;

export class Routes {
  readonly #routes: Route[] = [];
  readonly #found = new Map<string, Route | undefined>();

  /** An error if there is an equal subscription. */
  add(subscription: Partial<TypedSubscription<unknown>>, takesBatch: boolean, fn: Route['function']): void {
    const { schema } = subscription;
    if (schema !== undefined && !isSchema(schema)) {
      throw new TypeError('the schema is no Standard Schema (https://standardschema.dev)');
    }
    const topic = wildcard(subscription.topic);
    const types = [subscription.types ?? []].flat();
    for (const type of types.length > 0 ? types.map(wildcard) : [undefined]) {
      if (this.#routes.some((route) => route.topic === topic && route.type === type)) {
        throw new Error(`two functions for topic ${topic ?? '*'} and type ${type ?? '*'}`);
      }
      this.#routes.push({ topic, type, function: fn, takesBatch, schema });
    }
    this.#found.clear();
  }

  find(topic: string, type: string): Route | undefined {
    const key = `${topic}\n${type}`;
    let route = this.#found.get(key);
    if (route === undefined && !this.#found.has(key)) {
      route = this.#search(topic, type);
      if (this.#found.size < CACHE_MAX) {
        this.#found.set(key, route);
      }
    }
    return route;
  }

  /** The `subscribe` of a hello. Empty: everything. */
  subscriptions(): Subscription[] {
    const byTopic = new Map<string | undefined, string[]>();
    for (const { topic, type } of this.#routes) {
      byTopic.set(topic, [...(byTopic.get(topic) ?? []), type ?? '*']);
    }
    const isAll = (types: string[]) => types.length === 1 && types[0] === '*';
    return [...byTopic]
      .filter(([topic, types]) => byTopic.size > 1 || topic !== undefined || !isAll(types))
      .map(([topic, types]) => ({ topic, types: isAll(types) ? undefined : types }));
  }

  get isEmpty(): boolean {
    return this.#routes.length === 0;
  }

  get hasBatches(): boolean {
    return this.#routes.some((route) => route.takesBatch);
  }

  #search(topic: string, type: string): Route | undefined {
    let best: Route | undefined;
    let bestRank = -1;
    for (const route of this.#routes) {
      const rank = rankOf(route, topic, type);
      if (rank > bestRank) {
        [best, bestRank] = [route, rank];
      }
    }
    return best;
  }
}

/** How specific the subscription is: an exact type, the longest prefix, no type; then a topic. -1 if it does not match. */
function rankOf(route: Route, topic: string, type: string): number {
  if (route.topic !== undefined && route.topic !== topic) {
    return -1;
  }
  const named = route.topic === undefined ? 0 : 1;
  if (route.type === undefined) {
    return named;
  }
  if (!route.type.endsWith('*')) {
    return route.type === type ? Number.MAX_SAFE_INTEGER - 1 + named : -1;
  }
  return type.startsWith(route.type.slice(0, -1)) ? 2 * route.type.length + named : -1;
}

function wildcard(name: string | undefined): string | undefined {
  return name === '*' ? undefined : name;
}
