#include "models/qwen3_5/config.h"

#include <cmath>
#include <gtest/gtest.h>

#include "format/key_reader.h"
#include "format/model_fixture.h"
#include "models/qwen3_5/family.h"

namespace ft::qwen3_5::config_test {
namespace {

using format::TemporaryFolder;

Result<Config> read(const Result<format::ConfigFiles>& files) {
  if (!files.ok()) return files.error();
  return Config::read(*files, format::KeyReader(*files->config, files->path).text("model_type", ""));
}

Result<Config> parse(const std::string& config, const std::string& generation = "",
                     const std::string& runtime = "") {
  return read(format::ConfigFiles::parse(config, generation, runtime, "dir/config.json"));
}

/// A config whose text_config holds only `keys`.
Result<Config> with_text(const std::string& keys) {
  return parse(R"({"model_type":"qwen3_5","text_config":{)" + keys + "}}");
}

std::string message_of(const Result<Config>& result) { return result.ok() ? "ok" : result.error().message; }

TEST(Config, AbsentKeysTakeTheDefaultsOfTheFamily) {
  auto dense = with_text("");
  ASSERT_TRUE(dense.ok()) << dense.error().message;
  EXPECT_EQ(dense->vocab_size, 248320);
  EXPECT_EQ(dense->hidden_size, 4096);
  EXPECT_EQ(dense->num_layers, 32);
  EXPECT_EQ(dense->num_kv_heads, 4);
  EXPECT_EQ(dense->linear_value_heads, 32);
  EXPECT_EQ(dense->qkv_rows(), 2 * 16 * 128 + 32 * 128);
  EXPECT_EQ(dense->moe.experts, 0);
  EXPECT_TRUE(dense->attn_output_gate);
  EXPECT_EQ(dense->rope.theta, 1e7);
  EXPECT_EQ(dense->rope.rotary_dim, 64);
  EXPECT_EQ(dense->rope.type, blocks::RopeType::kDefault);
  EXPECT_EQ(dense->mtp.layers, 1);
  EXPECT_FALSE(dense->tied.has_value());
  auto moe = parse(R"({"model_type":"qwen3_5_moe"})");
  ASSERT_TRUE(moe.ok()) << moe.error().message;
  EXPECT_EQ(moe->hidden_size, 2048);
  EXPECT_EQ(moe->num_layers, 40);
  EXPECT_EQ(moe->num_kv_heads, 2);
  EXPECT_EQ(moe->moe.experts, 256);
  EXPECT_TRUE(moe->moe.norm_topk);
}

TEST(Config, AMixtureOfExpertsHasItsOwnKeys) {
  auto config =
      parse(R"({"model_type":"qwen3_5_moe","text_config":{"num_experts":24,"num_experts_per_tok":3,)"
            R"("moe_intermediate_size":40,"shared_expert_intermediate_size":56,"norm_topk_prob":false}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->moe.experts, 24);
  EXPECT_EQ(config->moe.experts_per_token, 3);
  EXPECT_EQ(config->moe.expert_size, 40);
  EXPECT_EQ(config->moe.shared_size, 56);
  EXPECT_FALSE(config->moe.norm_topk);
  const ModelFacts facts = config->facts();
  EXPECT_EQ(facts.experts, 24);
  EXPECT_EQ(facts.experts_per_token, 3);
  EXPECT_EQ(facts.intermediate, 56) << "of the shared expert";
  EXPECT_EQ(with_text("")->facts().experts, 0);
}

TEST(Config, Qwen3NextIsFlatAndNamesNoHead) {
  auto config = parse(R"({"model_type":"qwen3_next","rope_theta":10000000,"partial_rotary_factor":0.25,)"
                      R"("rope_scaling":null,"num_hidden_layers":4,"mlp_only_layers":[]})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->vocab_size, 151936);
  EXPECT_EQ(config->moe.experts, 512);
  EXPECT_EQ(config->moe.experts_per_token, 10);
  EXPECT_EQ(config->rope.rotary_dim, 64);
  EXPECT_EQ(config->rope.theta, 1e7);
  EXPECT_TRUE(config->mtp.by_tensors);
  EXPECT_EQ(config->mtp.layers, 1);
  EXPECT_EQ(config->layer_types.back(), LayerType::kFullAttention);
  EXPECT_FALSE(parse(R"({"model_type":"qwen3_next","mtp_num_hidden_layers":0})")->mtp.by_tensors);
}

TEST(Config, WithoutATextConfigTheWholeIsTheTextConfig) {
  auto config =
      parse(R"({"model_type":"qwen3_5_text","hidden_size":320,"vocab_size":8192,"eos_token_id":7})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->hidden_size, 320);
  EXPECT_EQ(config->eos_ids, (std::vector<int>{7}));
}

TEST(Config, LayerTypesComeFromTheListElseFromTheInterval) {
  auto interval = with_text(R"("num_hidden_layers":6,"full_attention_interval":3)");
  ASSERT_TRUE(interval.ok());
  const auto kLin = LayerType::kLinearAttention;
  const auto kFull = LayerType::kFullAttention;
  EXPECT_EQ(interval->layer_types, (std::vector<LayerType>{kLin, kLin, kFull, kLin, kLin, kFull}));
  auto list = with_text(R"("num_hidden_layers":2,"layer_types":["full_attention","linear_attention"])");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->layer_types, (std::vector<LayerType>{kFull, kLin}));
  EXPECT_NE(message_of(with_text(R"("num_hidden_layers":2,"layer_types":["full_attention"])"))
                .find("text_config.layer_types: expected a list of 2 types"),
            std::string::npos);
  EXPECT_NE(message_of(with_text(R"("num_hidden_layers":1,"layer_types":["mamba"])")).find("found \"mamba\""),
            std::string::npos);
}

TEST(Config, AllThreeSpellingsOfTheRotaryParametersMeanTheSame) {
  for (const char* keys :
       {R"("rope_parameters":{"rope_type":"default","rope_theta":5e5,"partial_rotary_factor":0.5})",
        R"("rope_parameters":{"type":"default","rope_theta":500000},"partial_rotary_factor":0.5)",
        R"("rope_theta":500000,"rope_scaling":null,"partial_rotary_factor":0.5)",
        R"("rope_theta":500000,"rope_scaling":{"type":"mrope"},"partial_rotary_factor":0.5)"}) {
    auto config = with_text(keys);
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->rope.theta, 5e5) << keys;
    EXPECT_EQ(config->rope.rotary_dim, 128) << keys;
    EXPECT_EQ(config->rope.type, blocks::RopeType::kDefault);
  }
}

TEST(Config, YarnTakesItsFactorAndDerivesTheAttentionFactor) {
  auto yarn = with_text(
      R"("rope_parameters":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":262144,
      "mrope_section":[11,11,10]})");
  ASSERT_TRUE(yarn.ok()) << yarn.error().message;
  EXPECT_EQ(yarn->rope.type, blocks::RopeType::kYarn);
  EXPECT_EQ(yarn->rope.factor, 4.0);
  EXPECT_EQ(yarn->rope.original_positions, 262144);
  EXPECT_DOUBLE_EQ(yarn->rope.attention_factor, 0.1 * std::log(4.0) + 1.0);
  EXPECT_EQ(yarn->rope.beta_fast, 32.0);
  auto given = with_text(R"("rope_scaling":{"type":"yarn","factor":2,"attention_factor":1.5})");
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->rope.attention_factor, 1.5);
  EXPECT_EQ(given->rope.original_positions, 32768);
  EXPECT_NE(message_of(with_text(R"("rope_parameters":{"rope_type":"yarn"})")).find("factor"),
            std::string::npos);
  EXPECT_EQ(with_text(R"("rope_parameters":{"rope_type":"longrope"})").error().code, Code::kUnsupported);
}

TEST(Config, StopsOnTheIdsOfBothFilesGenerationFirst) {
  auto config = parse(R"({"model_type":"qwen3_5","eos_token_id":44,"text_config":{"eos_token_id":[44,45]}})",
                      R"({"eos_token_id":[46,44],"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20,
                          "min_p":0.01,"repetition_penalty":1.1})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->eos_ids, (std::vector<int>{46, 44, 45}));
  const SamplingParams& sampling = config->sampling;
  EXPECT_EQ(
      std::tuple(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.repetition),
      std::tuple(0.6F, 20, 0.95F, 0.01F, 1.1F));
  auto none = parse(R"({"model_type":"qwen3_5"})");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->eos_ids.empty());
  EXPECT_EQ(none->sampling.temperature, 0);
}

TEST(Config, SamplesAsGenerationConfigSuggests) {
  const auto suggested = [](const std::string& generation) {
    const auto config = parse(R"({"model_type":"qwen3_5"})", generation);
    EXPECT_TRUE(config.ok()) << config.error().message;
    return config->sampling;
  };
  const SamplingParams greedy =
      suggested(R"({"do_sample":false,"temperature":0.6,"top_k":20,"repetition_penalty":1.1})");
  EXPECT_EQ(greedy.temperature, 0);
  EXPECT_EQ(greedy.top_k, 0) << "a request with a temperature samples from all tokens";
  EXPECT_EQ(greedy.repetition, 1.1F);
  EXPECT_EQ(suggested(R"({"do_sample":true})").temperature, 1) << "Hugging Face's default";
  EXPECT_EQ(suggested(R"({"top_k":-1})").top_k, 0);
  EXPECT_EQ(suggested(R"({"top_p":0})").top_p, kNearlyNone);
}

TEST(Config, ReadsTheContractOfTheHeadFromEveryPlace) {
  auto plain = with_text(R"("mtp_num_hidden_layers":2)");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->mtp.layers, 2);
  EXPECT_FALSE(plain->mtp.norms_are_delta());
  auto config = parse(R"({"model_type":"qwen3_5","mtplx_mtp_quantization":{"norm_encoding":"mlx_delta"},
      "mtplx_mtp_contract":{"base_hidden_variant":"pre_norm","mtp_hidden_variant":"pre_norm",
      "concat_order":"hidden_embedding"}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_TRUE(config->mtp.norms_are_delta());
  EXPECT_TRUE(config->mtp.base_hidden_pre_norm);
  EXPECT_TRUE(config->mtp.hidden_pre_norm);
  EXPECT_EQ(config->mtp.concat_order, "hidden_embedding");
  auto final_wins = parse(R"({"model_type":"qwen3_5","mtplx_mtp_norm_encoding":"final",
      "mtplx_mtp_quantization":{"norm_encoding":"delta"}})");
  ASSERT_TRUE(final_wins.ok());
  EXPECT_FALSE(final_wins->mtp.norms_are_delta());
  auto runtime = parse(
      R"({"model_type":"qwen3_5"})", "",
      R"({"mtp_norm_layout":"raw_hf_delta","mtp_depth_max":3,"mtp_contract":{"hidden_variant":"pre_norm"}})");
  ASSERT_TRUE(runtime.ok());
  EXPECT_TRUE(runtime->mtp.norms_are_delta());
  EXPECT_EQ(runtime->mtp.depth_max, 3);
  EXPECT_TRUE(runtime->mtp.hidden_pre_norm);
  EXPECT_EQ(parse(R"({"model_type":"qwen3_5","mtplx_mtp_contract":{"concat_order":"x"}})").error().code,
            Code::kUnsupported);
}

struct BadKey {
  const char* keys;
  const char* complaint;
};

TEST(Config, EachBadValueIsNamedByItsKey) {
  const BadKey cases[] = {
      {R"("hidden_size":0)", "text_config.hidden_size: expected a whole number from 1 to 1048576, found 0"},
      {R"("hidden_size":-5)", "text_config.hidden_size"},
      {R"("hidden_size":"320")", "found \"320\""},
      {R"("hidden_size":320.5)", "found 320.5"},
      {R"("hidden_size":1048577)", "text_config.hidden_size"},
      {R"("vocab_size":18446744073709551615)", "text_config.vocab_size"},
      {R"("num_hidden_layers":1025)", "text_config.num_hidden_layers"},
      {R"("num_attention_heads":10,"num_key_value_heads":4)",
       "text_config.num_key_value_heads: expected a divisor"},
      {R"("head_dim":255)", "text_config.head_dim: expected an even number, found 255"},
      {R"("linear_num_key_heads":3)", "text_config.linear_num_key_heads: expected a divisor"},
      {R"("rms_norm_eps":-1)", "text_config.rms_norm_eps"},
      {R"("attn_output_gate":1)", "text_config.attn_output_gate: expected true or false"},
      {R"("hidden_act":"gelu")", "text_config.hidden_act"},
      {R"("full_attention_interval":0)", "text_config.full_attention_interval"},
      {R"("rope_parameters":[])", "text_config.rope_parameters: expected an object"},
      {R"("rope_parameters":{"rope_theta":0})", "text_config.rope_parameters.rope_theta"},
      {R"("rope_parameters":{"partial_rotary_factor":0.001})", "rope_parameters.partial_rotary_factor"},
      {R"("rope_parameters":{"mrope_section":[11,11,11]})",
       "mrope_section: expected 3 sizes whose sum is 32"},
      {R"("rope_parameters":{"mrope_section":[-1,22,11]})", "mrope_section"},
      {R"("eos_token_id":248320)",
       "text_config.eos_token_id: expected token ids from 0 to vocab_size 248320 - 1"},
      {R"("eos_token_id":[1,"2"])", "text_config.eos_token_id"},
      {R"("bos_token_id":-1)", "text_config.bos_token_id"},
      {R"("mtp_num_hidden_layers":17)", "text_config.mtp_num_hidden_layers"},
  };
  for (const BadKey& bad : cases) {
    const std::string message = message_of(with_text(bad.keys));
    EXPECT_EQ(message.find("dir/config.json: "), 0U) << bad.keys << " -> " << message;
    EXPECT_NE(message.find(bad.complaint), std::string::npos) << bad.keys << " -> " << message;
  }
  EXPECT_NE(message_of(parse(R"({"model_type":"qwen3_5"})", R"({"top_p":1.5})"))
                .find("dir/generation_config.json: top_p: expected a number from 0 to 1, found 1.5"),
            std::string::npos);
  EXPECT_NE(message_of(parse(R"({"model_type":"qwen3_5_moe","num_experts":4})")).find("num_experts_per_tok"),
            std::string::npos);
}

TEST(Config, LimitsThemselvesAreAccepted) {
  EXPECT_EQ(message_of(with_text(R"("hidden_size":1048576,"num_hidden_layers":1024,"vocab_size":4000000)")),
            "ok");
}

TEST(Config, ReadsADirectoryAndSaysWhatIsMissingInIt) {
  const TemporaryFolder folder;
  auto absent = read(format::ConfigFiles::read(folder.path()));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_NE(absent.error().message.find("config.json"), std::string::npos);
  folder.write("config.json", R"({"model_type":"qwen3_5"})");
  auto alone = read(format::ConfigFiles::read(folder.path()));
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(alone->path, folder.file("config.json"));
  folder.write("generation_config.json", "{");
  EXPECT_EQ(read(format::ConfigFiles::read(folder.path())).error().code, Code::kCorrupt);
  folder.write("generation_config.json", "");
  EXPECT_EQ(read(format::ConfigFiles::read(folder.path())).error().code, Code::kCorrupt);
  folder.write("generation_config.json", R"({"eos_token_id":5})");
  EXPECT_EQ(read(format::ConfigFiles::read(folder.path()))->eos_ids, (std::vector<int>{5}));
}

}  // namespace
}  // namespace ft::qwen3_5::config_test
