#include "text/chat_template.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/heavy_work.h"

namespace ft::chat_template_test {
namespace {

using Json = nlohmann::ordered_json;

const std::string kModel = "assets/qwen3.5-tiny";
const std::string kUser = R"([{"role":"user","content":"U"}])";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Json golden(const std::string& name) { return Json::parse(text_of("tests/golden/text/" + name)); }

/// The rendering, or "error: " followed by the message.
std::string shown(const Result<std::string>& result) {
  return result.ok() ? *result : "error: " + result.error().message;
}

std::string rendered(const std::string& source, const std::string& messages = kUser,
                     const RenderOptions& options = {}) {
  const auto chat = ChatTemplate::from_source(source);
  return chat.ok() ? shown(chat->render(messages, "", options)) : "error: " + chat.error().message;
}

RenderOptions options_of(Json kwargs) {
  RenderOptions options;
  if (kwargs.contains("add_generation_prompt")) {
    options.add_generation_prompt = kwargs["add_generation_prompt"].get<bool>();
    kwargs.erase("add_generation_prompt");
  }
  if (kwargs.contains("enable_thinking")) {
    options.enable_thinking = kwargs["enable_thinking"].get<bool>();
    kwargs.erase("enable_thinking");
  }
  options.extra_json = kwargs.dump();
  return options;
}

TEST(ChatTemplate, ItsLinesMayEndAsOnOtherSystems) {
  const std::string unix = "{% if true %}\na\n{% endif %}\n{{ 'x\ny' }}\n\nb\n";
  std::string dos = unix;
  for (size_t at = 0; (at = dos.find('\n', at)) != std::string::npos; at += 2) dos.insert(at, 1, '\r');
  EXPECT_EQ(rendered(dos), rendered(unix));
  EXPECT_EQ(rendered("\xEF\xBB\xBF" + unix), rendered(unix)) << "a byte order mark";
  EXPECT_EQ(rendered(dos), "a\nx\ny\n\nb");
}

TEST(ChatTemplate, ValuesAreThoseOfJinja2) {
  const struct {
    const char *expression, *text;
  } cases[] = {
      {"none is iterable", "False"},
      {"(none is iterable, 'a' is iterable, {} is iterable)", "(False, True, True)"},
      {"[true, none, 1.0] ~ 'x'", "[True, None, 1.0]x"},
      {"(1 == true, 1 == 1.0, (1,) == [1])", "(True, True, False)"},
      {"'abcdef'[-2:] ~ [1, 2, 3][::-1]", "ef[3, 2, 1]"},
      {"[1, 2, 3][5:0:-1]", "[3, 2]"},
      {"(-7 // 2, -7 % 3, 7.5 // 2)", "(-4, 2, 3.0)"},
      {"'%s-%d' % ('a', 5)", "a-5"},
      {"'a' in none_such", "False"},
      {"none_such|length", "0"},
      {"range(3)", "[0, 1, 2]"},
      {"' 12 '|int + 'x'|int(7)", "19"},
      {"'a-b'|title ~ 'a,b'.title()", "A-BA,B"},
      {"'hello'.find('l', 3)", "3"},
      {"{'items': 1}['items']", "1"},
      {"{}.items is defined", "True"},
      {"'a\nb'|indent(2, true)", "  a\n  b"},
      {"[3, 1]|sort(reverse=true)", "[3, 1]"},
      {"strftime_now('%d %b %Y %c')", "01 Jan 1970 Thu Jan  1 00:00:00 1970"},
  };
  for (const auto& [expression, text] : cases)
    EXPECT_EQ(rendered("{{ " + std::string(expression) + " }}"), text) << expression;
  for (const char* wrong :
       {"1 + tools", "tools < 1", "'a' in add_generation_prompt", "tools|list", "1 in 'a'|upper"})
    EXPECT_TRUE(rendered("{{ " + std::string(wrong) + " }}").starts_with("error: ")) << wrong;
}

TEST(ChatTemplate, ArgumentsHaveJinja2sNamesAndPlaces) {
  const struct {
    const char *expression, *text;
  } cases[] = {
      {"cycler('a', 'b').next()", "a"},
      {"[1, 2]|sort(true)", "[2, 1]"},
      {"[{'r': 'y'}, {'r': 'x'}]|sort(attribute='r')|map(attribute='r')|list", "['x', 'y']"},
      {"[{'r': 'x', 'v': 1}, {'r': 'x'}]|groupby('r')", "[('x', [{'r': 'x', 'v': 1}, {'r': 'x'}])]"},
      {"([{'r': 'x'}]|groupby('r'))[0].grouper ~ ([{'r': 'x'}]|groupby('r')|first).list", "x[{'r': 'x'}]"},
      {"{'b': 1, 'a': 2}|dictsort(false, 'value')", "[('b', 1), ('a', 2)]"},
      {"'foo bar baz qux'|truncate(9)", "foo..."},
      {"'foo bar baz qux'|truncate(9, true)", "foo ba..."},
      {"'foo bar'|truncate(5, leeway=0)", "fo..."},
      {"'foo bar'|truncate(length=4, killwords=true, end='.', leeway=0)", "foo."},
      {"'foo bar'|truncate(5)", "foo bar"},
      {"'a b/c?é'|urlencode", "a%20b/c%3F%C3%A9"},
      {"{'a': 1, 'b': 'c d/'}|urlencode", "a=1&b=c+d%2F"},
      {"[('a', 'b&c')]|urlencode", "a=b%26c"},
      {"'x'.encode is defined", "True"},
      {"('x'.strip is defined, [].append is defined, [].count is defined, (1,).copy is defined)",
       "(True, False, True, False)"},
      {"('x'['upper'] is defined, {'upper': 1}.upper, 'x'.nothing is defined)", "(True, 1, False)"},
      {"none_such|default('d', boolean=true) ~ ''|default(default_value='e', boolean=true)", "de"},
      {"[none_such|default(none)]", "[None]"},
      {"'aXa'|replace(old='a', new='b', count=1)", "bXa"},
      {"'  a '|trim(chars=' ') ~ '|'", "a|"},
      {"'x'|center(width=3) ~ '|'", " x |"},
      {"{'a': [1]}|tojson(false, 1)", "{\n \"a\": [\n  1\n ]\n}"},
      {"{'b': 'ü', 'a': none}|tojson(true, none, (',', ':'), true)", "{\"a\":null,\"b\":\"\\u00fc\"}"},
      {"' a  b c '.split(none, 1)", "['a', 'b c ']"},
      {"'a,b,c'.split(sep=',', maxsplit=1)", "['a', 'b,c']"},
      {"'a b c'.rsplit(maxsplit=1)", "['a b', 'c']"},
      {"'a\\nb'.splitlines(keepends=true)", "['a\\n', 'b']"},
      {"'a\\tb'.expandtabs(4)", "a   b"},
      {"[1, 2, 1].index(1, 1)", "2"},
      {"7|round(method='ceil')", "7.0"},
      {"{'a': 1, 'b': 2}|last", "b"},
      {"{'a': 1, 'b': 2}|reverse|list", "['b', 'a']"},
      {"dict([('a', 1)], b=2)", "{'a': 1, 'b': 2}"},
      {"namespace({'a': 1}, b=2).a", "1"},
      {"[1, 2, 3]|sum(none, 4)", "10"},
      {"'ß'.casefold()", "ss"},
      {"'<'|forceescape", "&lt;"},
  };
  for (const auto& [expression, text] : cases)
    EXPECT_EQ(rendered("{{ " + std::string(expression) + " }}"), text) << expression;
  for (const char* wrong : {"1|default(a=1)", "'a'|replace('a')", "[1]|sort(true, reverse=true)", "cycler()",
                            "'a'|truncate(2)", "'a'.split('')", "dict([1])", "'a'|center(1, 2)"})
    EXPECT_TRUE(rendered("{{ " + std::string(wrong) + " }}").starts_with("error: ")) << wrong;
  EXPECT_EQ(rendered("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}"
                     "{% set _ = c.reset() %}{{ c.next() }}"),
            "ababa");
  EXPECT_EQ(rendered("{% set j = joiner('; ') %}{% for i in [1, 2, 3] %}{{ j() }}{{ i }}{% endfor %}"),
            "1; 2; 3");
  EXPECT_EQ(rendered("{% for name, list in [{'r': 'x'}, {'r': 'y'}, {'r': 'x'}]|groupby('r') %}"
                     "{{ name }}{{ list|length }}{% endfor %}"),
            "x2y1");
}

TEST(ChatTemplate, AWidthInAFormatIsBounded) {
  EXPECT_EQ(rendered("{{ '%4d' % 1 }}"), "   1");
  for (const char* wide : {"'%10000d' % 1", "'%.10000f'|format(1.0)", "'{:10000}'.format(1)"})
    EXPECT_NE(rendered("{{ " + std::string(wide) + " }}").find("more than 4 digits"), std::string::npos)
        << wide;
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(ChatTemplate, AnExpressionHasALimitedNumberOfParts) {
  for (const char* part : {"not ", "-", "(", "[", "x + ", "1 if x else ", "x ~ "}) {
    EXPECT_NE(rendered("{{ " + repeated(part, 60'000) + "x }}").find("more than 4096 parts"),
              std::string::npos)
        << part;
  }
  EXPECT_NE(rendered("{% if x %}" + repeated("{% elif x %}", 50'000) + "{% endif %}").find("1000 elif"),
            std::string::npos);
}

TEST(ChatTemplate, ARenderingHasLimitedMemoryAndWork) {
  const std::string doubled = "{% set ns = namespace(s='aaaaaaaa', l=[1]) %}{% for i in range(60) %}";
  const std::string list = doubled + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
  const std::string cases[] = {
      doubled + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      doubled + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
      doubled + "{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}{% endfor %}",
      "{{ 'a' * 1000000000 }}",
      "{{ [1] * 1000000000 }}",
      "{% set s = 'a' * 60000 %}{{ s|replace('a', s) }}",
      "{% set s = 'a' * 60000 %}{{ s.replace('a', s) }}",
      "{% set s = 'a' * 60000 %}{{ range(60000)|join(s) }}",
      "{{ 'a'|center(10000000000) }}",
      "{% set s = 'ab' * 10000000 %}{% for i in range(100000) %}{% set t = s|upper %}{% endfor %}",
      "{% set s = 'a' * 100000 %}{% for i in range(1000) %}{% set t = s.replace('a', 'b') %}{% endfor %}",
      list + "{{ ns.l }}",
      list + "{{ ns.l|tojson }}",
      list + "{{ ns.l == ns.l }}",
      list + "{{ [ns.l, ns.l]|sort }}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
  };
  for (const std::string& one : cases)
    EXPECT_NE(rendered(one).find("the template was stopped"), std::string::npos) << one << rendered(one);
}

TEST(ChatTemplate, OneThatLosesMemoryIsNotRenderedForEver) {
  const auto chat =
      ChatTemplate::from_source("{% set ns = namespace(s='a'|upper * 40000000) %}{% set ns.x = ns %}done");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(shown(chat->render(kUser, "")), "done");
  EXPECT_EQ(shown(chat->render(kUser, "")), "done");
  EXPECT_NE(shown(chat->render(kUser, "")).find("keeps memory"), std::string::npos);
}

TEST(ChatTemplate, RendersTheModelsGoldenConversations) {
  const auto chat = ChatTemplate::load(kModel);
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  const Json cases = golden("tiny_template.json");
  ASSERT_GE(cases.size(), 12u);
  for (const Json& one : cases) {
    const std::string tools = one["tools"].is_null() ? "" : one["tools"].dump();
    EXPECT_EQ(shown(chat->render(one["messages"].dump(), tools, options_of(one["kwargs"]))),
              one["rendered"].get<std::string>());
  }
}

/// `folder` holds the templates that the file names.
void expect_renderings(const Json& file, const std::string& folder) {
  std::map<std::string, ChatTemplate> loaded;
  for (const Json& one : file["cases"]) {
    const std::string name =
        one.contains("template") ? one["template"].get<std::string>() : one["source"].get<std::string>();
    if (!loaded.contains(name)) {
      const std::string path = name == "tiny" ? kModel + "/chat_template.jinja" : folder + "/" + name;
      auto chat = ChatTemplate::from_source(one.contains("source") ? name : text_of(path),
                                            R"({"eos_token":"<|im_end|>"})");
      ASSERT_TRUE(chat.ok()) << name << chat.error().message;
      loaded.emplace(name, std::move(*chat));
    }
    const Json& messages = file["conversations"][one["messages"].get<size_t>()];
    const auto result = loaded.at(name).render(
        messages.dump(), one["tools"] == true ? file["tools"].dump() : "", options_of(one["kwargs"]));
    if (one["rendered"].is_null()) {
      EXPECT_FALSE(result.ok()) << name << "\n" << messages << *result;
    } else {
      const Json& wanted = file["texts"][one["rendered"].get<size_t>()];
      EXPECT_EQ(shown(result), wanted.get<std::string>()) << name << "\n" << messages << one["kwargs"];
    }
  }
  EXPECT_GE(file["cases"].size(), 500u);
}

TEST(ChatTemplate, AgreesWithTransformersOnEveryGoldenRendering) {
  expect_renderings(golden("templates.json"), "tests/golden/text/templates");
}

/// Templates of published models, which are not part of this project; made by
/// tools/make_text_golden.py --published FOLDER.
TEST(ChatTemplate, AgreesWithTransformersOnPublishedTemplates) {
  const char* const folder = std::getenv("FORETOKEN_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "FORETOKEN_TEMPLATES names no folder: nothing was compared";
  expect_renderings(Json::parse(text_of(std::string(folder) + "/templates.json")), folder);
}

TEST(ChatTemplate, PreparesWhatApisAcceptAndTemplatesRefuse) {
  const std::string show = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}";
  EXPECT_EQ(rendered(show, R"([{"role":"developer","content":"D"},{"role":"system","content":"S"},
                               {"role":"user","content":null}])"),
            "[system:D\n\nS][user:]");
  EXPECT_EQ(rendered(show, R"([{"role":"system","content":"S"},
                               {"role":"developer","content":[{"type":"text","text":"D"},{"text":"E"}]},
                               {"role":"system","content":[{"type":"image"}]},
                               {"role":"user","content":"u"}])"),
            "[system:S\n\nDE][system:[{'type': 'image'}]][user:u]");
  const std::string call =
      "{% for k, v in messages[0].tool_calls[0].function.arguments|items %}{{ k }}={{ v }};{% endfor %}";
  EXPECT_EQ(rendered(call,
                     R"([{"role":"assistant","tool_calls":[{"function":
              {"name":"f","arguments":"{\"b\":1,\"a\":\"x\"}"}}]}])"),
            "b=1;a=x;");
  const std::string raw = "{{ messages[0].tool_calls[0].function.arguments }}";
  EXPECT_EQ(
      rendered(raw,
               R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{not json"}}]}])"),
      "{not json");
}

TEST(ChatTemplate, LeavesVariablesUndefinedUnlessGiven) {
  const std::string ask = "{{ enable_thinking is defined }} {{ tools is none }} {{ extra is defined }}";
  EXPECT_EQ(rendered(ask), "False True False");
  RenderOptions options;
  options.enable_thinking = false;
  options.extra_json = R"({"extra":1})";
  EXPECT_EQ(rendered(ask, kUser, options), "True True True");
}

TEST(ChatTemplate, ShowsTheInjectedClock) {
  RenderOptions options;
  options.now_s = 1'709'210'096;  // 2024-02-29 12:34:56, a leap day
  EXPECT_EQ(rendered("{{ strftime_now('%Y-%m-%d %H:%M:%S %A %-d %B %b %j %I%p %y%%') }}", kUser, options),
            "2024-02-29 12:34:56 Thursday 29 February Feb 060 12PM 24%");
  // The output of Python's strftime, also for one-digit days and months.
  const std::string all =
      "{{ strftime_now('%e %h %F %T %D %R %u %w %n%t%% %-m %-I %-H %-M %-S %-j %S %a %-e') }}";
  EXPECT_EQ(rendered(all, kUser, options),
            "29 Feb 2024-02-29 12:34:56 02/29/24 12:34 4 4 \n\t% 2 12 12 34 56 60 56 Thu 29");
  options.now_s = 1'751'328'245;
  EXPECT_EQ(rendered(all, kUser, options),
            " 1 Jul 2025-07-01 00:04:05 07/01/25 00:04 2 2 \n\t% 7 12 0 4 5 182 05 Tue 1");
  EXPECT_EQ(rendered("{{ strftime_now('%J') }}").rfind("error: the chat template refused: line 1", 0), 0u);
}

TEST(ChatTemplate, RepeatsTheTemplatesOwnRefusal) {
  EXPECT_EQ(rendered("{{ raise_exception('No user message.') }}"),
            "error: the chat template refused: No user message.");
  EXPECT_EQ(rendered("{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{{ m()|trim }}"),
            "error: the chat template refused: deep");
}

TEST(ChatTemplate, NamesTheLineOfAMistake) {
  EXPECT_EQ(rendered("a\n{% if %}").rfind("error: the chat template cannot be used: line 2: syntax error", 0),
            0u);
  EXPECT_EQ(rendered("a\n\n{{ messages.x.y }}")
                .rfind("error: the chat template refused: line 3: undefined value", 0),
            0u);
}

TEST(ChatTemplate, StopsWithoutFuel) {
  const std::string text =
      rendered("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}");
  EXPECT_NE(text.find("the template was stopped at line 1: more than 5000000 instructions"),
            std::string::npos)
      << text;
}

TEST(ChatTemplate, StopsDeepRecursion) {
  const std::string text = rendered("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}\n{{ f(0) }}");
  EXPECT_NE(text.find("more than 200 calls inside each other"), std::string::npos) << text;
}

TEST(ChatTemplate, StopsHugeOutput) {
  const std::string text =
      rendered("{% set x = 'x' * 1000000 %}{% for i in range(1000) %}{{ x }}{% endfor %}");
  EXPECT_NE(text.find("more than 64 MB of memory"), std::string::npos) << text;
}

TEST(ChatTemplate, RefusesASourceBeyondItsLimit) {
  TemplateLimits limits;
  limits.template_bytes = 10;
  EXPECT_TRUE(ChatTemplate::from_source(std::string(10, 'x'), {}, limits).ok());
  const auto chat = ChatTemplate::from_source(std::string(11, 'x'), {}, limits);
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().code, Code::kInvalid);
}

TEST(ChatTemplate, SurvivesHostileNesting) {
  EXPECT_EQ(rendered("{{ " + std::string(5000, '(')).rfind("error: ", 0), 0u);
  EXPECT_EQ(rendered("{{ " + std::string(100'000, '[')).rfind("error: ", 0), 0u);
  EXPECT_EQ(
      rendered(
          "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}ok"),
      "ok");
  const std::string deep = rendered(
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ "
      "ns.x|tojson }}");
  EXPECT_FALSE(deep.empty());
}

TEST(ChatTemplate, ALongRenderingIsLeftToOtherThreads) {
  const auto needs = [](const std::string& source, const std::string& messages) {
    const auto chat = ChatTemplate::from_source(source);
    EXPECT_TRUE(chat.ok()) << source;
    const HeavyWorkElsewhere elsewhere{HeavyWork::kRender};
    try {
      EXPECT_TRUE(chat->render(messages, "").ok()) << source;
    } catch (const HeavyWorkNeeded& needed) {
      return needed.work == HeavyWork::kRender;
    }
    return false;
  };
  const std::string loop =
      "{% for i in range(N) %}{% for j in range(100) %}{% set k = j %}{% endfor %}{% endfor %}";
  const auto turns = [&](const std::string& n) { return "{% set N = " + n + " %}" + loop + "x"; };
  EXPECT_FALSE(needs(turns("10"), kUser));
  EXPECT_TRUE(needs(turns("1000"), kUser));
  EXPECT_EQ(rendered(turns("1000")), "x") << "where it may take long, it ends";
  EXPECT_TRUE(needs("{% set s = 'x' * 5000000 %}{{ s | length }}", kUser));
  // Growth with the messages is not a long rendering.
  Json long_chat = Json::array();
  for (int i = 0; i < 1000; ++i)
    long_chat.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "some words"}});
  const auto shipped = ChatTemplate::load(kModel);
  ASSERT_TRUE(shipped.ok());
  EXPECT_FALSE(needs(shipped->source(), long_chat.dump()));
}

TEST(ChatTemplate, RefusesMessagesOfTheWrongShape) {
  EXPECT_EQ(rendered("x", "{}"), "error: messages must be a JSON array of {role, content}");
  EXPECT_EQ(rendered("x", "[1,").rfind("error: messages are not valid JSON", 0), 0u);
  EXPECT_EQ(rendered("x", "[\"\xff\"]").rfind("error: messages are not valid JSON", 0), 0u);
  EXPECT_EQ(rendered("x", std::string(101, '[') + std::string(101, ']')),
            "error: messages are nested deeper than 100 levels; flatten them");
  EXPECT_EQ(rendered("x", std::string("[]\0", 3)).rfind("error: messages are not valid JSON", 0), 0u);
  EXPECT_EQ(rendered("{{ messages|length }}", R"([1,null,"a"])"), "3");
}

TEST(ChatTemplate, NamesAFolderWithoutATemplate) {
  const auto chat = ChatTemplate::load("assets");
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace ft::chat_template_test
