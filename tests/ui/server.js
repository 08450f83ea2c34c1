// The real `foretoken serve` with the shipped model, on a free port.

import {spawn} from 'node:child_process';
import {existsSync} from 'node:fs';
import {fileURLToPath} from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const START_MS = 60_000;
const END_MS = 15_000;

export const BUILD = process.env.FORETOKEN_BUILD ?? `${ROOT}build/release`;
export const PAGE = `${BUILD}/webui/dist`;

/** Starts the server and waits for its URL; `close()` ends it as a person would and gives its exit code. */
export async function startServer(options = []) {
  const binary = `${BUILD}/foretoken`;
  if (!existsSync(binary)) throw new Error(`there is no ${binary}; build it first`);
  const child = spawn(binary, ['serve', '--port', '0', '--model', `${ROOT}assets/qwen3.5-tiny`, ...options], {
    env: {FORETOKEN_COSTS: 'measure', ...process.env},
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve(code ?? signal)));
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`no URL within a minute; it printed:\n${printed}`)),
      START_MS,
    );
    const read = (part) => {
      printed += part;
      const found = printed.match(/http:\/\/[\w.:[\]-]+:\d+/);
      if (found) {
        clearTimeout(timer);
        resolve(`${found[0]}/`);
      }
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    ended.then((code) => reject(new Error(`the server ended with ${code}; it printed:\n${printed}`)));
  });
  return {
    url,
    close() {
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), END_MS);
      return ended.finally(() => clearTimeout(late));
    },
  };
}
