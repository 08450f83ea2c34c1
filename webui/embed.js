// Writes the built page as C++: `node embed.js dist page.cpp`. The same page gives the same bytes.

import {createHash} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import {gzipSync} from 'node:zlib';

const BYTES_A_LINE = 24;

const [dist, target] = process.argv.slice(2);
const page = readFileSync(`${dist}/index.html`);
const policy = readFileSync(`${dist}/csp.txt`, 'utf8').trim();
const packed = gzipSync(page, {level: 9});
packed[9] = 255; // operating system: unknown, so that every system makes the same bytes
const etag = `"${createHash('sha256').update(packed).digest('hex').slice(0, 32)}"`;

const rows = [];
for (let at = 0; at < packed.length; at += BYTES_A_LINE) {
  rows.push(`    ${Array.from(packed.subarray(at, at + BYTES_A_LINE)).join(',')},`);
}

writeFileSync(
  target,
  `// Made from webui/ by webui/embed.js: ${page.length} bytes, ${packed.length} gzipped.
#include "server/ui_asset.h"

namespace ft {

namespace {
constexpr unsigned char kGzip[] = {
${rows.join('\n')}
};
constexpr UiAsset kAsset{kGzip, ${JSON.stringify(etag)}, ${JSON.stringify(policy)}};
}  // namespace

const UiAsset* ui_asset() { return &kAsset; }

}  // namespace ft
`,
);
