#include "models/head_layer.h"

#include <gtest/gtest.h>

namespace ft::head_layer_test {
namespace {

TEST(HeadLayer, TheLayerAfterTheLastOneHasTheNamesOfAHead) {
  EXPECT_EQ(name_of_head_layer("model.layers.46.eh_proj.weight", 46), "mtp.fc.weight");
  EXPECT_EQ(name_of_head_layer("model.layers.46.enorm.weight", 46), "mtp.pre_fc_norm_embedding.weight");
  EXPECT_EQ(name_of_head_layer("model.layers.46.hnorm.weight", 46), "mtp.pre_fc_norm_hidden.weight");
  EXPECT_EQ(name_of_head_layer("model.layers.46.shared_head.norm.weight", 46), "mtp.norm.weight");
  EXPECT_EQ(name_of_head_layer("model.layers.46.mlp.experts.3.up_proj.weight", 46),
            "mtp.layers.0.mlp.experts.3.up_proj.weight");
}

TEST(HeadLayer, OtherNamesStayAndCopiesAreDropped) {
  for (const char* name : {"model.layers.45.self_attn.q_proj.weight", "lm_head.weight", "mtp.fc.weight",
                           "model.embed_tokens.weight", "model.layers.x.weight"})
    EXPECT_EQ(name_of_head_layer(name, 46), name);
  EXPECT_EQ(name_of_head_layer("model.layers.46.embed_tokens.weight", 46), "");
  EXPECT_EQ(name_of_head_layer("model.layers.46.shared_head.head.weight", 46), "");
  EXPECT_EQ(name_of_head_layer("model.layers.47.eh_proj.weight", 46), "") << "of a second head";
}

}  // namespace
}  // namespace ft::head_layer_test
