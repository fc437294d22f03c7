/**
 * Computes the value that is compared in place of the body of a request. Two copies with the same content have the same value. A
 * middleware sees the body as a parser has left it, and parsers put the files of a form into other fields of the request. If a part of
 * the body might be missing in these fields, the request is refused.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

/** The part of a request that both middlewares use. */
export interface KeyedRequest {
  method: string;
  url: string;
  headers: Record<string, string | string[] | undefined>;
  /** The body as it came, or as a parser has read it. */
  body?: unknown;
}

/** Thrown if the body cannot be compared. The message says why. */
export class Unread extends Error {}

/** A file as multer, express-fileupload, formidable or @fastify/multipart describe it. */
interface Upload {
  fieldname?: unknown;
  originalname?: unknown;
  originalFilename?: unknown;
  filename?: unknown;
  name?: unknown;
  mimetype?: unknown;
  size?: unknown;
  [content: string]: unknown;
}

const ADVICE = 'the service can set the option fingerprint';

export async function compared<Request extends KeyedRequest>(
  request: Request,
  fingerprint?: (request: Request) => string | Uint8Array | Promise<string | Uint8Array>,
): Promise<Buffer> {
  if (fingerprint !== undefined) {
    return Buffer.from((await fingerprint(request)) as string);
  }
  if (isUnread(request)) {
    throw new Unread('no parser has read the body');
  }
  const type = request.headers['content-type']?.toString() ?? '';
  if (!/^multipart\//i.test(type)) {
    return bytesOf(request.body);
  }
  if (request.body instanceof Uint8Array) {
    return withoutBoundary(type, Buffer.from(request.body));
  }
  const [file, files] = ['file', 'files'].map((name) => {
    const value: unknown = Reflect.get(request, name);
    return typeof value === 'function' ? undefined : value; // those of @fastify/multipart are functions
  });
  if (!isComplete(request) && file === undefined && files === undefined) {
    throw new Unread(`the parts of the form are neither in body nor in file or files; ${ADVICE}`);
  }
  return bytesOf([await partsOf(request.body, request.body), await filesOf(file), await filesOf(files)]);
}

function isUnread(request: KeyedRequest): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  const raw = (Reflect.get(request, 'raw') ?? request) as { readableEnded?: boolean }; // raw: of Fastify
  return (encoding !== undefined || Number(length ?? 0) > 0) && raw.readableEnded === false;
}

/** True if a parser has read the form. multer and @fastify/multipart set a body also for a form without files. */
function isComplete(request: KeyedRequest): boolean {
  const { body } = request;
  const isObject = typeof body === 'object' && body !== null;
  return isObject && (Object.getPrototypeOf(body) === null || 'isMultipart' in request);
}

/** The fields of a form. Those of @fastify/multipart can be files, too. */
async function partsOf(value: unknown, form: unknown): Promise<unknown> {
  if (Array.isArray(value)) {
    return Promise.all(value.map((part) => partsOf(part, form)));
  }
  if (value instanceof Uint8Array) {
    return sha256(value);
  }
  if (!isPlain(value)) {
    return value;
  }
  // JSON of a client can contain neither a function nor an object that contains itself
  if (value['type'] === 'file' && typeof value['toBuffer'] === 'function') {
    return describe(value);
  }
  if (value['type'] === 'field' && value['fields'] === form && 'value' in value) {
    return { value: value['value'] };
  }
  const entries = Object.entries(value).map(async ([name, part]) => [name, await partsOf(part, form)]);
  return Object.fromEntries((await Promise.all(entries)) as [string, unknown][]);
}

/** Describes a file, or an array or an object of files. The parser makes these values, so a client cannot choose them. */
async function filesOf(value: unknown): Promise<unknown> {
  if (Array.isArray(value)) {
    return Promise.all(value.map(filesOf));
  }
  if (!isPlain(value) || typeof value['mimetype'] === 'string') {
    return typeof value === 'object' && value !== null ? describe(value as Upload) : value;
  }
  const entries = Object.entries(value).map(async ([name, part]) => [name, await filesOf(part)]);
  return Object.fromEntries((await Promise.all(entries)) as [string, unknown][]);
}

async function describe(file: Upload): Promise<unknown> {
  const name = file.originalname ?? file.originalFilename ?? file.filename ?? file.name;
  return { field: file.fieldname, name, type: file.mimetype, content: await digestOf(file) };
}

async function digestOf(file: Upload): Promise<string> {
  const { size, buffer, data, _buf } = file;
  const bytes = [buffer, data, _buf].find((content) => content instanceof Uint8Array);
  if (bytes !== undefined && (size === undefined || size === bytes.length)) {
    return sha256(bytes);
  }
  const path = [file['path'], file['tempFilePath'], file['filepath']].find(
    (one) => typeof one === 'string' && one !== '',
  );
  if (path === undefined) {
    throw new Unread(`the content of an uploaded file is neither in memory nor in a file of this machine; ${ADVICE}`);
  }
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path as string)) {
    hash.update(chunk as Buffer);
  }
  return hash.digest('hex');
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function isPlain(value: unknown): value is Record<string, unknown> {
  const prototype: unknown = typeof value === 'object' && value !== null ? Object.getPrototypeOf(value) : undefined;
  return prototype === Object.prototype || prototype === null;
}

/** A form as it came. Each copy of it may have another boundary between its parts. */
function withoutBoundary(type: string, body: Buffer): Buffer {
  const boundary = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(type);
  if (boundary === null) {
    return body;
  }
  const parts = `\r\n${body.toString('latin1')}`.split(`\r\n--${boundary[1] ?? boundary[2]}`);
  return Buffer.from(parts.map((part) => `${part.length}:${part}`).join(''), 'latin1');
}

function bytesOf(body: unknown): Buffer {
  if (body instanceof Uint8Array || typeof body === 'string') {
    return Buffer.from(body as string);
  }
  return Buffer.from(JSON.stringify(body, comparable) ?? '');
}

/** Refuses a Map, a URLSearchParams or a stream, because JSON.stringify() makes an empty object of it. */
function comparable(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') {
    return `${value}n`;
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && !isPlain(value)) {
    throw new Unread(`a parser has put a ${value.constructor?.name} into the body; ${ADVICE}`);
  }
  return value;
}
