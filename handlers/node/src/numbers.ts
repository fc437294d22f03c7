/** Numbers that lose digits as a `number` of JavaScript: JSON in which they are texts or BigInt. */

import { randomUUID } from 'node:crypto';

/** How numbers arrive that would lose digits. */
export type LargeNumbers = 'text' | 'bigint';

// A text that stands for a BigInt while JSON is read or written. No other text begins like this, because it is random.
const MARK = `${randomUUID()} `;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g');
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const SHORTEST = /\d{16}|\d\.\d{15}/; // a shorter number loses nothing

/** `JSON.parse` that keeps the digits of numbers. Whole numbers are texts or BigInt, others texts or, with BigInt, numbers. */
export function parserOf(largeNumbers: LargeNumbers): (line: string) => any {
  const revive = (_: string, value: unknown) =>
    typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;
  const keep = (token: string) => {
    if (token.startsWith('"') || String(Number(token)) === token || token.replace(/\D/g, '').length < 16) {
      return token;
    }
    if (largeNumbers === 'text') {
      return `"${token}"`;
    }
    return /^-?\d+$/.test(token) ? `"${MARK}${token}"` : token;
  };
  return (line) => {
    if (!SHORTEST.test(line)) {
      return JSON.parse(line);
    }
    const kept = line.replace(TOKENS, keep);
    return kept.includes(MARK) ? JSON.parse(kept, revive) : JSON.parse(kept);
  };
}

/** `JSON.stringify` that writes a BigInt with its digits. */
export function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    let found = false;
    const text = JSON.stringify(value, (_, inside: unknown) => {
      found ||= typeof inside === 'bigint';
      return typeof inside === 'bigint' ? `${MARK}${inside}` : inside;
    });
    if (!found) {
      throw error;
    }
    return text.replace(MARKED, '$1');
  }
}
