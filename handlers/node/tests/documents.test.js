// The code of the README is that of the examples, which tests/languages of the repository runs.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { VERSION } from 'inboxd';

const read = (path) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');

test('the README shows examples', () => {
  const examples = readdirSync(new URL('../examples', import.meta.url)).map((name) => read(`examples/${name}`));
  const shown = [...read('README.md').matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
  assert.equal(shown.length, 2);
  assert.deepEqual(
    shown.filter((code) => !examples.includes(code)),
    [],
  );
});

test('the version is that of the package', () => {
  assert.equal(VERSION, JSON.parse(read('package.json')).version);
});
