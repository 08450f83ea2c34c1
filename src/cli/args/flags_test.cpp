#include <gtest/gtest.h>

#include "cli/args/command.h"
#include "cli/args/command_line.h"
#include "cli/args/option_flags.h"
#include "cli/commands/subcommands.h"

namespace ft::cli::flags_test {
namespace {

struct Options {
  RequestOptions request;
  SpeculationOptions speculation;
  PromptOptions prompt;
  ModelOptions model;
};

struct Bench {
  Options options;
  Command command;
  Bench() {
    command.name = "run";
    options.request.max_tokens = 512;
    add_answer_flags(command.flags, options.request);
    add_sampling_flags(command.flags, options.request);
    add_speculation_flags(command.flags, options.request, options.speculation, &options.model);
    add_prompt_flags(command.flags, options.prompt);
  }
  Status set(const Typed& typed, const std::map<std::string, std::string>& environment = {},
             const std::vector<Setting>& settings = {}) {
    const Environment read = [&](const std::string& name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    };
    return resolve(command, typed, read, settings, "c.toml");
  }
};

TEST(Flags, TypedWinsOverEnvironmentOverSectionOverTopLevelOverDefault) {
  const std::vector<Setting> both = {{"run", "max-tokens", {"3"}, 2}, {"", "max-tokens", {"4"}, 1}};
  const std::map<std::string, std::string> environment = {{"FORETOKEN_MAX_TOKENS", "2"}};
  Bench bench;
  ASSERT_TRUE(bench.set({}).ok());
  EXPECT_EQ(bench.options.request.max_tokens, 512);
  ASSERT_TRUE(bench.set({}, {}, {both[1]}).ok());
  EXPECT_EQ(bench.options.request.max_tokens, 4);
  ASSERT_TRUE(bench.set({}, {}, both).ok());
  EXPECT_EQ(bench.options.request.max_tokens, 3);
  ASSERT_TRUE(bench.set({}, environment, both).ok());
  EXPECT_EQ(bench.options.request.max_tokens, 2);
  ASSERT_TRUE(bench.set({{"max-tokens", {"1"}}}, environment, both).ok());
  EXPECT_EQ(bench.options.request.max_tokens, 1);
}

TEST(Flags, ABackendsFlagIsRequiredOnlyIfItIsTyped) {
  const std::map<std::string, std::string> environment = {{"FORETOKEN_KV_BITS", "8"}};
  for (const bool typed : {false, true}) {
    Bench bench;
    ModelOptions model;
    add_backend_settings(bench.command.flags, model.backend_settings);
    ASSERT_TRUE(bench.set(typed ? Typed{{"kv-bits", {"8"}}} : Typed{}, environment).ok());
    ASSERT_EQ(model.backend_settings.all().size(), 1U);
    EXPECT_EQ(model.backend_settings.value("kv-bits", "16"), "8");
    EXPECT_EQ(model.backend_settings.all().front().required, typed);
  }
}

TEST(Flags, ABackendsFlagChecksItsValueAndTheUsualOneSetsNothing) {
  Bench bench;
  ModelOptions model;
  add_backend_settings(bench.command.flags, model.backend_settings);
  const Status bad = bench.set({{"activations", {"12"}}});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "--activations: expected auto, 8 or 16, found '12'");
  ASSERT_TRUE(bench.set({{"activations", {"auto"}}, {"device", {"0"}}}).ok());
  EXPECT_TRUE(model.backend_settings.all().empty());
}

TEST(Flags, OldNamesAreReadFromEverySourceAndShownNowhere) {
  Bench bench;
  ModelOptions model;
  add_calibration_flag(bench.command.flags, model);
  ASSERT_TRUE(bench.set({}, {{"FORETOKEN_COSTS", "/a"}}).ok());
  EXPECT_EQ(model.calibration, "/a");
  ASSERT_TRUE(bench.set({}, {}, {{"", "costs", {"/b"}, 1}}).ok());
  EXPECT_EQ(model.calibration, "/b");
  ASSERT_TRUE(bench.set({}, {{"FORETOKEN_COSTS", "/a"}, {"FORETOKEN_CALIBRATION", "/c"}}).ok());
  EXPECT_EQ(model.calibration, "/c");
  const std::vector<Command> commands = {bench.command};
  EXPECT_TRUE(stray_variables({"FORETOKEN_COSTS"}, commands).empty());
  EXPECT_TRUE(check_settings({{"", "costs", {"/b"}, 1}}, commands, "c.toml").ok());
}

TEST(Flags, AVariableThatSetsNothingIsSaidWithTheOneThatWasMeant) {
  const Bench bench;
  const std::vector<Command> commands = {bench.command};
  EXPECT_TRUE(
      stray_variables({"FORETOKEN_MAX_TOKENS", "FORETOKEN_CONFIG", "PATH", "max-tokens"}, commands).empty());
  const std::vector<std::string> said =
      stray_variables({"FORETOKEN_TEMPRATURE", "FORETOKEN_XYZZYX", "FORETOKEN_TOP_K"}, commands);
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0],
            "the environment variable FORETOKEN_TEMPRATURE matches no flag and is ignored; did you mean "
            "FORETOKEN_TEMPERATURE?");
  EXPECT_EQ(said[1], "the environment variable FORETOKEN_XYZZYX matches no flag and is ignored");
}

TEST(Flags, AListComesFromOneSourceAlone) {
  Bench bench;
  ASSERT_TRUE(
      bench.set({{"stop", {"a", "b"}}}, {{"FORETOKEN_STOP", "c"}}, {{"", "stop", {"d", "e"}, 1}}).ok());
  EXPECT_EQ(bench.options.request.stops, (std::vector<std::string>{"a", "b"}));
}

TEST(Flags, AWrongValueNamesItsOrigin) {
  Bench bench;
  const Status typed = bench.set({{"top-p", {"1.5"}}});
  ASSERT_FALSE(typed.ok());
  EXPECT_EQ(typed.error().message, "--top-p: expected a number above 0 and at most 1, found '1.5'");
  const Status environment = bench.set({}, {{"FORETOKEN_DEPTH", "99"}});
  ASSERT_FALSE(environment.ok());
  EXPECT_EQ(environment.error().message,
            "FORETOKEN_DEPTH: expected auto or a whole number from 0 to 15, found '99'");
  const Status file = bench.set({}, {}, {{"", "seed", {"-1"}, 7}});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message,
            "c.toml line 7: seed: expected a whole number from 0 to 18446744073709551615, found '-1'");
}

TEST(Flags, NumbersMustBeWholeWordsAndFinite) {
  for (const char* text : {"", "nan", "inf", "1e999", "0.5x", " 1", "0x1"}) {
    Bench bench;
    EXPECT_FALSE(bench.set({{"temperature", {text}}}).ok()) << text;
    EXPECT_FALSE(bench.set({{"max-tokens", {text}}}).ok()) << text;
  }
}

TEST(Flags, IdsAndBiasesAreRead) {
  Bench bench;
  ASSERT_TRUE(bench.set({{"prompt-ids", {"1, 2,3"}}, {"logit-bias", {"5=-2.5", "7=1"}}}).ok());
  EXPECT_EQ(bench.options.prompt.ids, (std::vector<std::int32_t>{1, 2, 3}));
  ASSERT_EQ(bench.options.request.bias.size(), 2U);
  EXPECT_EQ(bench.options.request.bias[0].token, 5);
  EXPECT_EQ(bench.options.request.bias[0].value, -2.5F);
  for (const char* text : {"1,,2", "a", "-1", "1;2", "99999999999"}) {
    EXPECT_FALSE(bench.set({{"prompt-ids", {text}}}).ok()) << text;
  }
  for (const char* text : {"5", "=3", "5=", "5=nan", "-5=1"}) {
    EXPECT_FALSE(bench.set({{"logit-bias", {text}}}).ok()) << text;
  }
}

TEST(Flags, TwoSourcesOfThePromptAreRefused) {
  PromptOptions prompt;
  prompt.text = "a", prompt.file = "b";
  EXPECT_FALSE(check_prompt_flags(prompt).ok());
  prompt.file.reset();
  EXPECT_TRUE(check_prompt_flags(prompt).ok());
  prompt.raw = true, prompt.system = "s";
  const Status status = check_prompt_flags(prompt);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("--system needs the chat template"), std::string::npos);
}

TEST(Settings, UnknownKeysAndSectionsNameLineAndWhatWasMeant) {
  std::vector<Command> commands;
  commands.push_back(run_command());
  commands.push_back(chat_command());
  const Status key = check_settings({{"", "temprature", {"1"}, 4}}, commands, "c.toml");
  ASSERT_FALSE(key.ok());
  EXPECT_EQ(key.error().message, "c.toml line 4: unknown key 'temprature'; did you mean 'temperature'?");
  const Status section = check_settings({{"rum", "seed", {"1"}, 9}}, commands, "c.toml");
  ASSERT_FALSE(section.ok());
  EXPECT_EQ(section.error().message, "c.toml line 9: unknown subcommand 'rum'; did you mean 'run'?");
  EXPECT_FALSE(check_settings({{"chat", "prompt", {"1"}, 2}}, commands, "c.toml").ok())
      << "chat takes no prompt";
  EXPECT_TRUE(check_settings({{"", "prompt", {"1"}, 2}}, commands, "c.toml").ok()) << "run takes one";
}

class CommandLines : public ::testing::Test {
 protected:
  CommandLines() {
    commands.push_back(run_command());
    commands.push_back(inspect_command());
  }
  Result<CommandLine> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "foretoken");
    return parse_command_line(static_cast<int>(words.size()), words.data(), commands);
  }
  std::vector<Command> commands;
};

TEST_F(CommandLines, ValuesMayLookLikeFlagsListsAndNumbers) {
  const auto line =
      parse({"run", "-p", "[1,2]", "--stop", "--x", "--stop", "a,b", "--presence-penalty", "-1.5"});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->typed.at("prompt"), std::vector<std::string>{"[1,2]"});
  EXPECT_EQ(line->typed.at("stop"), (std::vector<std::string>{"--x", "a,b"}));
  EXPECT_EQ(line->typed.at("presence-penalty"), std::vector<std::string>{"-1.5"});
}

TEST_F(CommandLines, ARepeatableFlagLeavesThePromptAfterIt) {
  for (const char* flag : {"--drafter", "--image", "--stop"}) {
    const auto line = parse({"run", flag, "value", "the prompt"});
    ASSERT_TRUE(line.ok()) << flag << ": " << line.error().message;
    EXPECT_EQ(line->typed.at(flag + 2), std::vector<std::string>{"value"});
    EXPECT_EQ(line->typed.at("prompt"), std::vector<std::string>{"the prompt"}) << flag;
  }
}

TEST_F(CommandLines, SectionsOfTheHelpAreOneEmptyLineApart) {
  for (const std::vector<const char*>& words : {std::vector{"--help"}, std::vector{"run", "--help"}, {}}) {
    const auto line = parse(words);
    ASSERT_TRUE(line.ok());
    EXPECT_NE(line->help.find("\n\n"), std::string::npos);
    EXPECT_EQ(line->help.find("\n\n\n"), std::string::npos);
  }
}

TEST_F(CommandLines, OldNamesAreReadAndNotInTheHelp) {
  const auto line = parse({"run", "--costs", "measure", "--prepared=auto"});
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->typed.at("calibration"), std::vector<std::string>{"measure"});
  EXPECT_EQ(line->typed.at("packed-weights"), std::vector<std::string>{"auto"});
  const auto help = parse({"run", "--help"});
  ASSERT_TRUE(help.ok());
  EXPECT_NE(help->help.find("--packed-weights"), std::string::npos);
  EXPECT_EQ(help->help.find("--prepared"), std::string::npos);
}

TEST_F(CommandLines, TwoDashesEndTheFlags) {
  const auto line = parse({"run", "-n", "4", "--", "-5 + 3 = ?"});
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->typed.at("prompt"), std::vector<std::string>{"-5 + 3 = ?"});
  EXPECT_EQ(line->typed.at("max-tokens"), std::vector<std::string>{"4"});
  const auto flag = parse({"run", "--json", "--", "--help"});
  ASSERT_TRUE(flag.ok()) << flag.error().message;
  EXPECT_EQ(flag->typed.at("prompt"), std::vector<std::string>{"--help"});
  const auto model = parse({"inspect", "--program", "--", "-odd"});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->typed.at("model"), std::vector<std::string>{"-odd"});
  EXPECT_EQ(parse({"run", "--", "--"})->typed.at("prompt"), std::vector<std::string>{"--"});
}

TEST_F(CommandLines, TwoDashesMayStandAloneOrBeAValue) {
  const auto alone = parse({"run", "--json", "--"});
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_FALSE(alone->typed.contains("prompt"));
  const auto value = parse({"run", "--stop", "--", "-p", "--", "--json"});
  ASSERT_TRUE(value.ok()) << value.error().message;
  EXPECT_EQ(value->typed.at("stop"), std::vector<std::string>{"--"});
  EXPECT_EQ(value->typed.at("prompt"), std::vector<std::string>{"--"});
  EXPECT_EQ(value->typed.at("json"), std::vector<std::string>{"true"});
}

TEST_F(CommandLines, WordsAfterTwoDashesAreCounted) {
  const auto two = parse({"run", "one", "--", "-two"});
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error().message,
            "run: '-two' is an extra argument; quote a text that has spaces, name a model by --model, or see "
            "foretoken run --help");
}

TEST_F(CommandLines, TheLastOfTwoValuesCounts) {
  const auto line = parse({"run", "--seed", "1", "--seed=2", "--json"});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->typed.at("seed"), std::vector<std::string>{"2"});
  EXPECT_EQ(line->typed.at("json"), std::vector<std::string>{"true"});
}

TEST_F(CommandLines, InspectTakesItsModelWithoutAName) {
  const auto line = parse({"inspect", "/models/a", "--program"});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->command->name, "inspect");
  EXPECT_EQ(line->typed.at("model"), std::vector<std::string>{"/models/a"});
}

TEST_F(CommandLines, UnknownWordsAreAnsweredWithWhatWasMeant) {
  const auto flag = parse({"run", "--max-token", "5"});
  ASSERT_FALSE(flag.ok());
  EXPECT_EQ(flag.error().message, "run: unknown flag '--max-token'; did you mean --max-tokens?");
  const auto word = parse({"rnu"});
  ASSERT_FALSE(word.ok());
  EXPECT_EQ(word.error().message, "unknown subcommand 'rnu'; did you mean 'run'?");
  EXPECT_FALSE(parse({"run", "--seed"}).ok());
  EXPECT_EQ(parse({"list"}).error().message, "unknown subcommand 'list'; use foretoken models");
  EXPECT_EQ(parse({"help", "run"}).error().message,
            "unknown subcommand 'help'; use foretoken --help, or foretoken SUBCOMMAND --help");
  EXPECT_EQ(parse({"-v"}).error().message,
            "unknown flag '-v'; flags follow a subcommand, see foretoken --help");
}

TEST_F(CommandLines, HelpHasExamplesAndNamesEveryFlag) {
  const auto line = parse({"run", "--help"});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->command, nullptr);
  EXPECT_NE(line->help.find("Examples:"), std::string::npos);
  for (const Flag& flag : commands[0].flags.flags()) {
    EXPECT_NE(line->help.find("--" + flag.name), std::string::npos) << flag.name;
  }
}

}  // namespace
}  // namespace ft::cli::flags_test
