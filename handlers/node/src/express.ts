/**
 * A middleware for Express: `app.use(express.json(), idempotency({ pool }))`. Mount it behind the parser of the body. The request finds
 * the transaction as `response.locals.connection`, a client of `pg`.
 *
 * @packageDocumentation
 */

import type { ServerResponse } from 'node:http';
import { Exchange } from './exchange.js';
import {
  type Answer,
  changed,
  type IdempotencyOptions,
  type KeyedRequest,
  MAX_RESPONSE,
  Refused,
} from './idempotency.js';

export type { Answer, IdempotencyOptions, KeyedRequest } from './idempotency.js';

/** What the middleware needs of a response of Express. */
export type ExpressResponse = ServerResponse & { locals: Record<string, any> };

export function idempotency<Request extends KeyedRequest & { originalUrl: string }>(
  options: IdempotencyOptions<Request>,
) {
  return (request: Request, response: ExpressResponse, next: (error?: unknown) => void): void => {
    Exchange.begin(request, options).then((exchange) => {
      if (exchange instanceof Exchange) {
        response.locals['connection'] = exchange.client;
        holdBack(response, exchange, next);
        exchange.watch(response, options.abandonAfter);
        next();
      } else if (exchange === undefined) {
        next();
      } else {
        send(response, exchange);
      }
    }, next);
  };
}

function send(response: ServerResponse, { status, headers, body }: Answer): void {
  response.statusCode = status;
  setHeaders(response, headers);
  response.end(body);
}

type Headers = Record<string, any>;

function setHeaders(response: ServerResponse, headers: Headers): void {
  Object.entries(headers).forEach(([name, value]) => response.setHeader(name, value));
}

/** The headers of writeHead(): an object, or names and values in turn, each name once or more. */
function writeHeaders(response: ServerResponse, headers: Headers | unknown[] | undefined): void {
  if (!Array.isArray(headers)) {
    setHeaders(response, headers ?? {});
    return;
  }
  const names = headers.filter((_, index) => index % 2 === 0) as string[];
  names.forEach((name) => response.removeHeader(name));
  names.forEach((name, index) => response.appendHeader(name, headers[2 * index + 1]));
}

const HELD = ['write', 'end', 'writeHead', 'flushHeaders'];

/** Keeps what is written until the COMMIT. */
function holdBack(response: ServerResponse, exchange: Exchange, next: (error?: unknown) => void): void {
  const original = Object.fromEntries(HELD.map((name) => [name, Reflect.get(response, name) as unknown]));
  const before: Headers = { ...response.getHeaders() }; // of outer middlewares: each copy gets its own
  const chunks: Buffer[] = [];
  let ended = false;
  let size = 0;

  const keep = (chunk: unknown, encoding: unknown, callback: unknown): void => {
    if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') {
      const code = typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8';
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, code) : Buffer.from(chunk as Uint8Array);
      if (size <= MAX_RESPONSE) {
        chunks.push(bytes);
      }
      size += bytes.length;
    }
    const done = [chunk, encoding, callback].find((argument) => typeof argument === 'function') as
      (() => void) | undefined;
    if (done !== undefined) {
      process.nextTick(done);
    }
  };
  const restart = (status: number, statusMessage: string, headers: Headers): void => {
    response.getHeaderNames().forEach((name) => response.removeHeader(name));
    Object.assign(response, { statusCode: status, statusMessage });
    setHeaders(response, headers);
  };
  /** Stores the complete response and sends it. Later changes by the program have no effect. */
  const finish = async (): Promise<void> => {
    const body = Buffer.concat(chunks);
    const { statusCode, statusMessage } = response;
    const headers: Headers = { ...response.getHeaders() };
    let failure: unknown;
    let added: Headers = {};
    try {
      added = await exchange.finish(statusCode, changed(headers, before), body);
    } catch (error) {
      failure = error;
    }
    Object.assign(response, original);
    if (failure === undefined) {
      restart(statusCode, statusMessage, { ...headers, ...added });
      // the program, or a page for an error behind the response, may have set or removed another one
      response.removeHeader('transfer-encoding');
      if (statusCode !== 204 && statusCode !== 304) {
        response.setHeader('content-length', body.length);
      }
      response.end(body);
    } else {
      restart(500, '', before);
      if (failure instanceof Refused) {
        send(response, failure.answer);
      } else {
        next(failure);
      }
    }
  };
  Object.assign(response, {
    write(chunk: unknown, encoding?: unknown, callback?: unknown) {
      keep(chunk, encoding, callback);
      return true;
    },
    end(chunk?: unknown, encoding?: unknown, callback?: unknown) {
      keep(chunk, encoding, callback);
      if (!ended) {
        ended = true;
        void finish();
      }
      return response;
    },
    writeHead(status: number, ...rest: unknown[]) {
      response.statusCode = status;
      writeHeaders(response, rest.find((argument) => typeof argument === 'object') as Headers | undefined);
      return response;
    },
    flushHeaders() {},
  });
}
