// Calls to the server, all to the page's own origin.

import {readEvents} from './sse.js';
import {ServerFailure, failureOf, unreachable} from './failures.js';

const headers = (key) => (key ? {Authorization: `Bearer ${key}`} : {});

/** {state: 'ready'} | {state: 'loading', progress} | {state: 'gone'} */
export async function health() {
  try {
    const response = await fetch('/health', {cache: 'no-store'});
    if (response.ok) return {state: 'ready'};
    const body = await response.json().catch(() => ({}));
    if (body.status === 'stopping') return {state: 'gone'};
    if (response.status === 503) return {state: 'loading', progress: Number(body.progress) || 0};
    return {state: 'ready'};
  } catch {
    return {state: 'gone'};
  }
}

async function getJson(path, key) {
  let response;
  try {
    response = await fetch(path, {headers: headers(key), cache: 'no-store'});
  } catch {
    throw new ServerFailure(unreachable(false));
  }
  if (!response.ok) {
    throw new ServerFailure(
      failureOf(response.status, await response.text().catch(() => ''), response.headers.get('retry-after')),
    );
  }
  return response.json();
}

/** The served model: {props, models, seesPictures}. Throws ServerFailure. */
export async function describe(key) {
  const [props, list] = await Promise.all([getJson('/props', key), getJson('/v1/models', key)]);
  const models = list.data ?? [];
  const seesPictures = models.some((one) => one.modalities?.includes?.('image') ?? false);
  return {props, models: models.map((one) => one.id), seesPictures};
}

/** Streams an answer; `onChunk` gets each parsed chunk. Throws ServerFailure, or AbortError when stopped. */
export async function streamChat(body, key, signal, onChunk) {
  let begun = false;
  try {
    const response = await fetch('/v1/chat/completions', {
      method: 'POST',
      signal,
      body: JSON.stringify(body),
      headers: {'Content-Type': 'application/json', ...headers(key)},
    });
    if (!response.ok) {
      throw new ServerFailure(
        failureOf(
          response.status,
          await response.text().catch(() => ''),
          response.headers.get('retry-after'),
        ),
      );
    }
    begun = true;
    let ended = false;
    await readEvents(response.body, (data) => {
      if (data === '[DONE]') ended = true;
      else onChunk(JSON.parse(data));
    });
    if (!ended) throw new ServerFailure(unreachable(true));
  } catch (error) {
    if (error instanceof ServerFailure || error.name === 'AbortError') throw error;
    throw new ServerFailure(unreachable(begun));
  }
}
