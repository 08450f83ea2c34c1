// Markdown to HTML that is safe to insert. Raw HTML in the text stays text (html: false), and a second filter
// (`clean`, DOMPurify in the browser) checks the result. Nothing may load from elsewhere: pictures are shown
// only if the text contains their data; others become links.

import MarkdownIt from 'markdown-it';

const LINK = /^(https?:|mailto:)/i;
const ELSEWHERE = 'target="_blank" rel="noopener noreferrer nofollow"';
const INLINE_PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/i;
const MAX_HIGHLIGHTED_CHARS = 60_000;

/** What DOMPurify allows: text, tables, links, pictures in the text, MathML; no style, no script. */
export const CLEAN_OPTIONS = {
  USE_PROFILES: {html: true, mathMl: true},
  ADD_TAGS: ['semantics', 'annotation'],
  ADD_ATTR: ['target', 'encoding', 'display'],
  FORBID_TAGS: ['style', 'form', 'input', 'textarea', 'select', 'video', 'audio', 'iframe', 'svg'],
  FORBID_ATTR: ['style', 'id', 'name', 'srcset', 'poster', 'background'],
  // DOMPurify tests every attribute with this: an allowed scheme, or none.
  ALLOWED_URI_REGEXP:
    /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);base64,|[^a-z]|[a-z+.-]+(?:[^a-z+.:-]|$))/i,
};

/**
 * A renderer of blocks. `highlight(code, language)` gives HTML or null, `formulas` is a plugin that draws
 * formulas, `clean(html)` is the filter. Rendering never throws.
 */
export function makeRenderer({highlight, formulas, clean}) {
  const markdown = new MarkdownIt({html: false, linkify: true, breaks: false, typographer: false});
  // Only absolute links: a relative link would send requests to this server.
  markdown.validateLink = (target) => LINK.test(target) || INLINE_PICTURE.test(target);
  const escape = markdown.utils.escapeHtml;
  formulas?.(markdown);

  const openLink =
    markdown.renderer.rules.link_open ??
    ((tokens, index, options, _, self) => self.renderToken(tokens, index, options));
  markdown.renderer.rules.link_open = (tokens, index, ...rest) => {
    tokens[index].attrSet('target', '_blank');
    tokens[index].attrSet('rel', 'noopener noreferrer nofollow');
    return openLink(tokens, index, ...rest);
  };
  markdown.renderer.rules.image = (tokens, index) => {
    const source = tokens[index].attrGet('src') ?? '';
    const text = tokens[index].content || 'picture';
    if (INLINE_PICTURE.test(source)) return `<img src="${escape(source)}" alt="${escape(text)}">`;
    return `<a href="${escape(source)}" ${ELSEWHERE}>${escape(text)}</a>`;
  };
  markdown.renderer.rules.fence = (tokens, index) => {
    const language = tokens[index].info.trim().split(/\s+/)[0] ?? '';
    return codeBlock(tokens[index].content, language);
  };
  markdown.renderer.rules.code_block = (tokens, index) => codeBlock(tokens[index].content, '');
  markdown.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>';
  markdown.renderer.rules.table_close = () => '</table></div>';

  function codeBlock(code, language) {
    const text = code.replace(/\n$/, '');
    const coloured = text.length <= MAX_HIGHLIGHTED_CHARS ? highlight?.(text, language) : null;
    return (
      `<div class="code"><div class="code-head"><span>${escape(language || 'text')}</span>` +
      '<button type="button" class="copy">Copy</button></div>' +
      `<pre tabindex="0"><code>${coloured ?? escape(text)}</code></pre></div>`
    );
  }

  return (block) => {
    try {
      return clean(markdown.render(block));
    } catch {
      return `<pre>${escape(block)}</pre>`;
    }
  };
}
