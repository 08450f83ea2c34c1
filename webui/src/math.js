// Formulas in Markdown: $a$, \(a\), $$a$$ and \[a\], drawn as MathML by KaTeX, which needs no extra
// fonts. `draw(tex, display)` gives the HTML; text that only looks like a formula stays text.

/** "$" begins a formula if no space follows; it ends one if no space is before it and no digit after it. */
function dollarEnd(text, from) {
  if (/\s/.test(text[from] ?? ' ')) return -1;
  for (let at = text.indexOf('$', from); at > 0; at = text.indexOf('$', at + 1)) {
    if (text[at - 1] === '\\') continue;
    if (at === from || /\s/.test(text[at - 1]) || /\d/.test(text[at + 1] ?? '')) return -1;
    return at;
  }
  return -1;
}

const PAIRS = [
  ['$$', '$$', true],
  ['\\[', '\\]', true],
  ['\\(', '\\)', false],
];

function inlineFormula(state, silent) {
  const {src, pos} = state;
  const first = src[pos];
  if (first !== '$' && first !== '\\') return false;
  let found = null;
  for (const [open, close, display] of PAIRS) {
    if (!src.startsWith(open, pos)) continue;
    const end = src.indexOf(close, pos + 2);
    if (end > pos + 2) found = {tex: src.slice(pos + 2, end), next: end + 2, display};
  }
  if (found === null && first === '$' && src[pos + 1] !== '$') {
    const end = dollarEnd(src, pos + 1);
    if (end > 0) found = {tex: src.slice(pos + 1, end), next: end + 1, display: false};
  }
  if (found === null || found.tex.trim() === '' || found.next > state.posMax) return false;
  if (!silent) {
    const token = state.push('formula', 'math', 0);
    token.content = found.tex;
    token.meta = {display: found.display};
  }
  state.pos = found.next;
  return true;
}

function blockFormula(state, startLine, endLine, silent) {
  const lineText = (line) => state.src.slice(state.bMarks[line] + state.tShift[line], state.eMarks[line]);
  const first = lineText(startLine).trim();
  const pair = PAIRS.find(([open, , display]) => display && first.startsWith(open));
  if (!pair || state.sCount[startLine] - state.blkIndent >= 4) return false;
  const close = pair[1];
  const lines = [first.slice(2)];
  let line = startLine;
  while (!lines[lines.length - 1].trimEnd().endsWith(close)) {
    line += 1;
    if (line >= endLine) return false;
    lines.push(lineText(line));
  }
  const tex = lines.join('\n').trimEnd().slice(0, -2);
  if (tex.trim() === '' || tex.includes(close)) return false;
  if (silent) return true;
  const token = state.push('formula', 'math', 0);
  token.block = true;
  token.content = tex;
  token.meta = {display: true};
  state.line = line + 1;
  return true;
}

/** A plugin for markdown-it. */
export function formulas(markdown, draw) {
  // Before `escape`, which would consume the backslash of \(.
  markdown.inline.ruler.before('escape', 'formula', inlineFormula);
  markdown.block.ruler.before('fence', 'formula', blockFormula, {
    alt: ['paragraph', 'reference', 'blockquote', 'list'],
  });
  markdown.renderer.rules.formula = (tokens, index) =>
    draw(tokens[index].content, tokens[index].meta.display);
}
