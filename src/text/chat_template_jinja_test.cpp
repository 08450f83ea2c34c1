// Syntax and filters of Jinja2 that minijinja lacks: the expected texts come from PyPI's jinja2 3.1.6 in
// transformers' environment.
#include <gtest/gtest.h>
#include <string>

#include "text/chat_template.h"

namespace ft::chat_template_jinja_test {
namespace {

std::string rendered(const std::string& source) {
  const auto chat = ChatTemplate::from_source(source);
  if (!chat.ok()) return "error: " + chat.error().message;
  const auto text = chat->render(R"([{"role": "user", "content": "hi"}])", "", {});
  return text.ok() ? *text : "error: " + text.error().message;
}

struct Case {
  const char *source, *text;
};
constexpr Case kCases[] = {
    {R"t({{ '%s %r' % ('a', "it's") }})t", R"t(a "it's")t"},
    {R"t({{ '%(a)s/%(b)r' % {'a': 1, 'b': 'x'} }})t", R"t(1/'x')t"},
    {R"t({{ '%d|%i|%u|%5d|%-5d|%05d|%+d|% d|%.3d' % (2.7, 3, 4, 5, 6, -7, 8, 9, 10) }})t",
     R"t(2|3|4|    5|6    |-0007|+8| 9|010)t"},
    {R"t({{ '%x %X %#x %o' % (255, 255, 255, 8) }})t", R"t(ff FF 0xff 10)t"},
    {R"t({{ '%e %E %g %g %G' % (1234.5, 0.00012, 1234567.0, 0.5, 1e-10) }})t",
     R"t(1.234500e+03 1.200000E-04 1.23457e+06 0.5 1E-10)t"},
    {R"t({{ '%5.2f|%-8.3f|%08.2f|%+.1f' % (2.345, 1.5, -3.14159, 2.0) }})t",
     R"t( 2.35|1.500   |-0003.14|+2.0)t"},
    {R"t({{ '%c%c%%' % ('a', 98) }})t", R"t(ab%)t"},
    {R"t({{ '%a' % 'ü' }})t", R"t('\xfc')t"},
    {R"t({{ '%10s|%-10s|%.2s' % ('ab', 'cd', 'efgh') }})t", R"t(        ab|cd        |ef)t"},
    {R"t({{ '%s' % none }}{{ '%s' % [1, 'a'] }}{{ '%s' % {'a': 1} }})t", R"t(None[1, 'a']{'a': 1})t"},
    {R"t({{ '%(a)s'|format(a='x') }}{{ '%s-%s'|format(1, 2) }})t", R"t(x1-2)t"},
    {R"t({{ +1 }}{{ 2 + +3 }}{{ -(+4) }}{{ [+1, +2.5] }}{{ +true }})t", R"t(15-4[1, 2.5]1)t"},
    {R"t({{ +5|string ~ 1 }})t", R"t(51)t"},
    {R"t({% macro m(a, b=2) %}{{ a }}|{{ b }}|{{ varargs }}|{{ kwargs }}{% endmacro %}{{ m(1) }} )t"
     R"t({{ m(1, 3, 4, z='q') }})t",
     R"t(1|2|()|{} 1|3|(4,)|{'z': 'q'})t"},
    {R"t({% macro m() %}{% for x in varargs %}[{{ x }}]{% endfor %}{% for k, v in kwargs.items() )t"
     R"t(%}{{ k }}={{ v }};{% endfor %}{% endmacro %}{{ m(1, 2, c=4, d=5) }})t",
     R"t([1][2]c=4;d=5;)t"},
    {R"t({% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, b=2) }})t", R"t(1{'b': 2})t"},
    {R"t({% macro m(a, b=a, c=[a, b]) -%}  {{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}/{{ m(1, )t"
     R"t(2) }}/{{ m(1, c=3) }})t",
     R"t(11[1, 1]/12[1, 2]/113)t"},
    {R"t({% macro inner(a=0, b=0) %}{{ a }},{{ b }}{% endmacro %}{% macro outer() %}{{ )t"
     R"t(inner(*varargs, **kwargs) }}{% endmacro %}{{ outer(1, b=2) }})t",
     R"t(1,2)t"},
    {R"t({% macro m(a) %}{{ a }}{{ caller(5, 6) }}{% endmacro %}{% call(x, y) m(1) %}<{{ x }}{{ )t"
     R"t(y }}>{% endcall %})t",
     R"t(1<56>)t"},
    {R"t({% macro m(a) %}{{ a }}{% if caller is defined %}{{ caller() }}{% endif %}{{ kwargs )t"
     R"t(}}{% endmacro %}{{ m(1, k=2) }}{% call m(2) %}c{% endcall %})t",
     R"t(1{'k': 2}2c{})t"},
    {R"t({% macro m(a, b) %}{{ caller is defined }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ )t"
     R"t(m.catch_kwargs }}{{ m.catch_varargs }}{{ m is callable }})t",
     R"t(m('a', 'b')FalseFalseTrue)t"},
    {R"t({{ 'a long text with some words-that-break and averyverylongword - )t"
     R"t(here--there'|wordwrap(12) }})t",
     R"t(a long text
with some
words-that-
break and av
eryverylongw
ord - here--
there)t"},
    {R"t({{ 'a long text with words-that-break averyverylongword'|wordwrap(10, false) }})t",
     R"t(a long
text with
words-
that-break
averyverylongword)t"},
    {R"t({{ 'a long text with words-that-break averyverylongword'|wordwrap(width=8, )t"
     R"t(break_on_hyphens=false, wrapstring='|') }})t",
     R"t(a long|text|with wor|ds-that-|break av|eryveryl|ongword)t"},
    {R"t({{ 'a\n  b c d e f\n\ng'|wordwrap(3) }})t",
     R"t(a
  b
c d
e f

g)t"},
    {R"t({{ '<p>a  <b>b</b>\n c</p> <!-- x --> &lt;d&gt; &amp;&#65;&#x42; a & b'|striptags }})t",
     R"t(a b c <d> &AB a & b)t"},
    {R"t({{ {'a': none, 'b': 1, 'c': '<"'}|xmlattr }}{{ {'a': 1}|xmlattr(false) }})t",
     R"t( b="1" c="&lt;&#34;"a="1")t"},
    {R"t({{ 1|filesizeformat }} {{ 0|filesizeformat }} {{ 1000|filesizeformat }} {{ )t"
     R"t(1024|filesizeformat(true) }} {{ 123456789|filesizeformat }} {{ '100'|filesizeformat }} )t"
     R"t({{ 999999|filesizeformat }} {{ 1e30|filesizeformat }})t",
     R"t(1 Byte 0 Bytes 1.0 kB 1.0 KiB 123.5 MB 100 Bytes 1000.0 kB 1000000.0 YB)t"},
    {R"t({{ '<a>'|e|e }}{{ '<a>'|safe|e }}{{ '<a>'|e is escaped }}{{ 'a' is escaped }}{{ )t"
     R"t(('<a>'|e) + '<' }}{{ ('<'|e) ~ '<' }}{{ '<'|e|forceescape }})t",
     R"t(&lt;a&gt;<a>TrueFalse&lt;a&gt;&lt;&lt;<&amp;lt;)t"},
    {R"t({{ {'a': 1}|attr('a') is defined }}{{ namespace(a=1)|attr('a') }})t", R"t(False1)t"},
};

TEST(ChatTemplate, RendersTheRestOfJinja2) {
  for (const auto& [source, text] : kCases) EXPECT_EQ(rendered(source), text) << source;
}

TEST(ChatTemplate, RefusesWhatJinja2Refuses) {
  for (const char* wrong : {
           R"t({{ '%s' % (1, 2) }})t",
           R"t({{ '%s %s' % 1 }})t",
           R"t({{ '%d' % 'a' }})t",
           R"t({{ '%q' % 1 }})t",
           R"t({{ '%' % 1 }})t",
           R"t({{ '%(a)s' % {'b': 1} }})t",
           R"t({{ '%(a)s %s'|format(1, a=2) }})t",
           R"t({{ +'a' }})t",
           R"t({% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(1, 2) }})t",
           R"t({% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, b=2) }})t",
           R"t({% macro m(a) %}{{ varargs }}{% endmacro %}{{ m(1, a=2) }})t",
           R"t({{ 'a'|wordwrap(0) }})t",
           R"t({{ {'a b': 1}|xmlattr }})t",
           R"t({{ 'x'|filesizeformat }})t",
       }) {
    EXPECT_TRUE(rendered(wrong).starts_with("error: ")) << wrong << ": " << rendered(wrong);
  }
}

TEST(ChatTemplate, FiltersThatAreNotThereAreNamedAtLoad) {
  for (const char* name : {"random", "urlize"}) {
    const auto chat = ChatTemplate::from_source("a\n{{ x|" + std::string(name) + " }}");
    ASSERT_FALSE(chat.ok());
    EXPECT_NE(chat.error().message.find("line 2: the filter " + std::string(name)), std::string::npos)
        << chat.error().message;
  }
}

}  // namespace
}  // namespace ft::chat_template_jinja_test
