/**
 * Counts the requests that hold a connection of a pool. One connection is left for the programs of these requests. Without it, all
 * connections could belong to requests whose programs wait for another connection of the pool, and none of them would end.
 */

/** The limits of a `Pool` of `pg`. */
interface Limits {
  options?: { max?: number; connectionTimeoutMillis?: number };
}

const TIMEOUT_MS = 30_000;

class Places {
  private taken = 0;
  private readonly waiting = new Set<() => void>();

  constructor(private readonly pool: Limits) {}

  async take(): Promise<void> {
    const { max = Infinity, connectionTimeoutMillis } = this.pool.options ?? {};
    if (this.taken < Math.max(max - 1, 1)) {
      this.taken += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.waiting.delete(begin);
        reject(new Error('timeout exceeded when trying to connect')); // as the pool says
      }, connectionTimeoutMillis || TIMEOUT_MS);
      this.waiting.add(begin);
    });
  }

  /** Gives the place to the request that has waited longest. */
  give(): void {
    const [next] = this.waiting;
    if (next === undefined) {
      this.taken -= 1;
    } else {
      this.waiting.delete(next);
      next();
    }
  }
}

const places = new WeakMap<object, Places>();

export function placesOf(pool: object): Places {
  const found = places.get(pool) ?? new Places(pool);
  places.set(pool, found);
  return found;
}
