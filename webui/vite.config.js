// Builds the page into one file, dist/index.html, and its Content-Security-Policy, dist/csp.txt. Script and
// style are in the page, and the policy names the script by its hash, so that no other script ever runs.
import {createHash} from 'node:crypto';
import {svelte} from '@sveltejs/vite-plugin-svelte';
import {defineConfig} from 'vite';

export const MAX_PAGE_BYTES = 600_000;

function policy(script) {
  const hash = createHash('sha256').update(script, 'utf8').digest('base64');
  return [
    "default-src 'none'",
    `script-src 'sha256-${hash}'`,
    "style-src 'unsafe-inline'",
    'font-src data:',
    'img-src data: blob:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** Puts the one script and the one style sheet into the page and writes the policy beside it. */
function onePage() {
  return {
    name: 'one-page',
    enforce: 'post',
    generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const page = files.find((file) => file.fileName === 'index.html');
      const scripts = files.filter((file) => file.type === 'chunk');
      const styles = files.filter((file) => file.fileName.endsWith('.css'));
      if (scripts.length !== 1 || styles.length !== 1 || files.length !== 3) {
        this.error(`the page must be one script and one style, not ${files.map((f) => f.fileName)}`);
      }
      // Text that would end the element early is escaped; both forms mean the same in a string.
      const script = scripts[0].code
        .trim()
        .replace(/<\/(script)/gi, '<\\/$1')
        .replace(/<!--/g, '\\x3C!--');
      const style = String(styles[0].source).trim();
      const html = String(page.source)
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace(/\s*<script type="module"[^>]*><\/script>/, '')
        .replace('</head>', () => `  <style>${style}</style>\n  </head>`)
        .replace('</body>', () => `  <script type="module">${script}</script>\n  </body>`);
      const bytes = Buffer.byteLength(html);
      if (bytes > MAX_PAGE_BYTES) this.error(`the page has ${bytes} bytes, at most ${MAX_PAGE_BYTES}`);
      delete bundle[scripts[0].fileName];
      delete bundle[styles[0].fileName];
      page.source = html;
      this.emitFile({type: 'asset', fileName: 'csp.txt', source: policy(script)});
      this.info(`index.html has ${bytes} bytes of ${MAX_PAGE_BYTES}`);
    },
  };
}

export default defineConfig({
  plugins: [svelte({compilerOptions: {runes: true}}), onePage()],
  build: {
    target: 'es2022',
    modulePreload: {polyfill: false},
    cssCodeSplit: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  // `npm run dev` next to a server: vite serves the sources, foretoken (or the mock) serves the API.
  server: {
    proxy: Object.fromEntries(['/v1', '/health', '/props'].map((path) => [path, 'http://127.0.0.1:8080'])),
  },
});
