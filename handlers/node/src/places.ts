/**
 * How many requests have a connection of a pool. One connection remains for the programs of these requests: if each connection belonged
 * to a request, and each program waited for another connection of the pool, none would end.
 */

/** What a `Pool` of `pg` has. */
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

  /** The one that waits longest gets the place. */
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
