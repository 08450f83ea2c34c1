// The renderer that the page uses: Markdown with coloured code and formulas, filtered by DOMPurify.

import DOMPurify from 'dompurify';
import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import katex from 'katex';
import {CLEAN_OPTIONS, makeRenderer} from './markdown.js';
import {formulas} from './math.js';

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

const MAX_FORMULA_CHARS = 4000;
const MAX_KEPT_FORMULAS = 500;
const escapeHtml = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const drawn = new Map(); // a formula in the open block is drawn repeatedly

function draw(tex, display) {
  if (tex.length > MAX_FORMULA_CHARS) return `<code>${escapeHtml(tex)}</code>`;
  const key = (display ? 'd' : 'i') + tex;
  let html = drawn.get(key);
  if (html === undefined) {
    html = katex.renderToString(tex, {
      displayMode: display,
      output: 'mathml',
      throwOnError: false,
      strict: 'ignore',
      trust: false,
      maxExpand: 200,
    });
    if (drawn.size >= MAX_KEPT_FORMULAS) drawn.clear();
    drawn.set(key, html);
  }
  return display ? `<div class="formula" tabindex="0">${html}</div>` : html;
}

function highlight(code, language) {
  if (!hljs.getLanguage(language)) return null;
  return hljs.highlight(code, {language, ignoreIllegals: true}).value;
}

export const renderBlock = makeRenderer({
  highlight,
  formulas: (markdown) => formulas(markdown, draw),
  clean: (html) => DOMPurify.sanitize(html, CLEAN_OPTIONS),
});
