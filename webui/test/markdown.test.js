import assert from 'node:assert/strict';
import {test} from 'node:test';
import katex from 'katex';
import {makeRenderer} from '../src/markdown.js';
import {formulas} from '../src/math.js';

// The second filter, DOMPurify, needs a browser (tests/ui). Here the first one must suffice.
const render = makeRenderer({
  clean: (html) => html,
  formulas: (markdown) =>
    formulas(markdown, (tex, display) => `<f>${display ? 'D' : 'I'}:${tex.replace(/</g, '&lt;')}</f>`),
});

test('raw HTML stays text', () => {
  for (const bad of [
    '<img src=x onerror=alert(1)>',
    '<script>alert(1)</script>',
    '<a onclick=x>',
    '<svg/onload=x>',
    'text <iframe src="x"></iframe>',
    '<!-- x -->',
    '<style>*{}</style>',
  ]) {
    assert.doesNotMatch(render(bad), /<(img|script|a|svg|iframe|style|!--)/i, bad);
  }
});

test('links with scripts or pages are not links', () => {
  for (const target of [
    'javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    'java&#x09;script:alert(1)',
    'vbscript:x',
    'data:text/html,<script>x</script>',
    'file:///etc/passwd',
    '&#106;avascript:alert(1)',
    '/v1/cache',
    'page.html',
    '//evil.invalid',
    'data:image/svg+xml;base64,AAAA',
  ]) {
    assert.doesNotMatch(render(`[x](${target})`), /<a /, target);
  }
});

test('links open elsewhere without a referrer', () => {
  assert.match(render('[x](https://example.org)'), /target="_blank" rel="noopener noreferrer nofollow"/);
});

test('a picture from elsewhere becomes a link, one in the text is shown', () => {
  assert.doesNotMatch(render('![dot](http://tracker.invalid/x.png)'), /<img/);
  assert.match(render('![dot](http://tracker.invalid/x.png)'), /<a href="http:\/\/tracker.invalid\/x.png"/);
  assert.match(
    render('![dot](data:image/png;base64,AAAA)'),
    /<img src="data:image\/png;base64,AAAA" alt="dot">/,
  );
  assert.doesNotMatch(render('![dot](data:image/svg+xml;base64,AAAA)'), /<img/);
});

test('a language that tries to be HTML is text', () => {
  assert.doesNotMatch(render('```"><script>x</script>\ncode\n```'), /<script/);
});

test('code blocks carry their language and a button', () => {
  const html = render('```python\nprint("<b>")\n```');
  assert.match(html, /<span>python<\/span><button type="button" class="copy">Copy<\/button>/);
  assert.match(html, /print\(&quot;&lt;b&gt;&quot;\)/);
});

test('formulas of all four kinds', () => {
  assert.match(render('a $x+1$ b'), /a <f>I:x\+1<\/f> b/);
  assert.match(render('a \\(x\\) b'), /a <f>I:x<\/f> b/);
  assert.match(render('$$\nx\ny\n$$'), /<f>D:\nx\ny\n<\/f>/);
  assert.match(render('\\[ x \\]'), /<f>D: x <\/f>/);
  assert.match(render('text $$x$$ text'), /text <f>D:x<\/f> text/);
});

test('amounts of money are not formulas', () => {
  for (const text of ['$5 and $6', 'from $5 to $10', 'a $ b $ c', '\\$x\\$', '$5', '$$']) {
    assert.doesNotMatch(render(text), /<f>/, text);
  }
});

test('a formula in code is code', () => {
  assert.doesNotMatch(render('`$x$`'), /<f>/);
  assert.doesNotMatch(render('```\n$x$\n```'), /<f>/);
});

test('a formula that is not closed stays text', () => {
  assert.match(render('so $x + 1'), /so \$x \+ 1/);
  assert.match(render('$$\nx'), /\$\$/);
});

test('tables can be scrolled by keyboard', () => {
  assert.match(render('| a |\n|---|\n| 1 |'), /<div class="table" tabindex="0"><table>/);
});

test('KaTeX refuses links and styles and never throws as it is called', () => {
  const options = {output: 'mathml', throwOnError: false, strict: 'ignore', trust: false, maxExpand: 200};
  for (const tex of [
    '\\href{javascript:x}{y}',
    '\\htmlStyle{color:red}{x}',
    '\\includegraphics{http://x}',
    '\\frac{',
    '\\def\\a{\\a\\a}\\a',
    '\\unknown',
  ]) {
    assert.doesNotMatch(katex.renderToString(tex, options), /href=|<img|style="color:red"/, tex);
  }
});
