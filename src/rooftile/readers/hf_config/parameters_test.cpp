// Parameter counts of published models, from their published hyper-parameters.
//
// The expected numbers are those that PyTorch counts in the Transformers classes named
// (sum of numel over parameters), as given on model cards and in papers, and derived by hand:
// where a family appears once, the derivation is beside it. h is the width, L the layers, f the
// feed-forward width, V the vocabulary, P the positions, d the head width.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "rooftile/readers/hf_config/hf_config.h"

namespace rooftile {
namespace {

struct Case {
  const char* name;
  const char* config;
  std::int64_t parameters;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class PublishedParameters : public testing::TestWithParam<Case> {};

TEST_P(PublishedParameters, AreExact) {
  const auto workload = parse_hf_config(GetParam().config, "config.json", {});
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->parameters, GetParam().parameters);
}

std::string test_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

const Case kDecoders[] = {
    // V·h + P·h + L·(12h² + 13h) + 2h = 50257·768 + 1024·768 + 12·7,087,872 + 1,536.
    {"gpt2", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768,
      "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})",
     124'439'808},
    {"gpt2_xl", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 1600,
      "n_layer": 48, "n_head": 25, "n_positions": 1024, "vocab_size": 50257})",
     1'557'611'200},
    // 2·V·h + L·(4h² + 3·h·f + 2h) + h.
    {"llama_2_7b", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})",
     6'738'415'616},
    // The same with k and v of 8 heads: 2h² + 2·h·1024.
    {"llama_3_1_8b", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256})",
     8'030'261'248},
    {"llama_3_1_70b", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
      "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256})",
     70'553'706'496},
    // V·h once (tied), heads of 128 although h/heads is 64, norms of queries and keys.
    {"qwen3_0_6b", R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
      "vocab_size": 151936, "tie_word_embeddings": true})",
     596'049'920},
    // Biases of q, k and v: L·(896 + 2·128).
    {"qwen2_5_0_5b", R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
      "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
      "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936,
      "tie_word_embeddings": true})",
     494'032'768},
    {"phi_3_mini", R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
      "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064})",
     3'821'079'552},
    {"gemma_2b", R"({"architectures": ["GemmaForCausalLM"], "model_type": "gemma",
      "hidden_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 8,
      "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384,
      "vocab_size": 256000})",
     2'506'172'416},
    {"gemma_2_2b", R"({"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2",
      "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
      "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216,
      "vocab_size": 256000, "sliding_window": 4096})",
     2'614'341'888},
    {"gemma_3_1b", R"({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
      "hidden_size": 1152, "num_hidden_layers": 26, "num_attention_heads": 4,
      "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 6912,
      "vocab_size": 262144, "sliding_window": 512})",
     999'885'952},
    {"phi_2", R"({"architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_size": 2560,
      "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 10240,
      "vocab_size": 51200})",
     2'779'683'840},
    {"gpt_j_6b", R"({"architectures": ["GPTJForCausalLM"], "model_type": "gptj", "n_embd": 4096,
      "n_layer": 28, "n_head": 16, "n_positions": 2048, "vocab_size": 50400})",
     6'050'882'784},
    {"pythia_6_9b", R"({"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox",
      "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
      "intermediate_size": 16384, "vocab_size": 50432})",
     6'857'302'016},
    {"falcon_7b", R"({"architectures": ["FalconForCausalLM"], "model_type": "falcon",
      "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
      "vocab_size": 65024, "multi_query": true, "parallel_attn": true, "bias": false})",
     6'921'720'704},
    {"bloom_560m", R"({"architectures": ["BloomForCausalLM"], "model_type": "bloom",
      "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16, "vocab_size": 250880})",
     559'214'592},
    {"mpt_7b", R"({"architectures": ["MPTForCausalLM"], "model_type": "mpt", "d_model": 4096,
      "n_layers": 32, "n_heads": 32, "expansion_ratio": 4, "no_bias": true, "vocab_size": 50432,
      "max_seq_len": 2048, "attn_config": {"alibi": true}})",
     6'649'286'656},
    {"opt_1_3b", R"({"architectures": ["OPTForCausalLM"], "model_type": "opt",
      "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "ffn_dim": 8192,
      "max_position_embeddings": 2048, "vocab_size": 50272})",
     1'315'758'080},
    {"gpt_neo_125m", R"({"architectures": ["GPTNeoForCausalLM"], "model_type": "gpt_neo",
      "hidden_size": 768, "num_layers": 12, "num_heads": 12, "vocab_size": 50257,
      "max_position_embeddings": 2048})",
     125'198'592},
    {"starcoder2_3b", R"({"architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2",
      "hidden_size": 3072, "num_hidden_layers": 30, "num_attention_heads": 24,
      "num_key_value_heads": 2, "intermediate_size": 12288, "vocab_size": 49152})",
     3'030'371'328},
    // No norm weights at all: V·h + L·(4h² + 3·h·f).
    {"olmo_1b", R"({"architectures": ["OlmoForCausalLM"], "model_type": "olmo",
      "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
      "intermediate_size": 8192, "vocab_size": 50304, "tie_word_embeddings": true})",
     1'176'764'416},
    {"stablelm_2_1_6b", R"({"architectures": ["StableLmForCausalLM"], "model_type": "stablelm",
      "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
      "num_key_value_heads": 32, "intermediate_size": 5632, "vocab_size": 100352,
      "use_qkv_bias": true})",
     1'644'515'328},
    {"command_r", R"({"architectures": ["CohereForCausalLM"], "model_type": "cohere",
      "hidden_size": 8192, "num_hidden_layers": 40, "num_attention_heads": 64,
      "num_key_value_heads": 64, "intermediate_size": 22528, "vocab_size": 256000})",
     34'980'831'232},
    // 2·V·h + L·(2h² + 2·h·1024 + 8·3·h·f + 8·h + 2h) + h.
    {"mixtral_8x7b", R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
      "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8,
      "num_experts_per_tok": 2, "vocab_size": 32000})",
     46'702'792'704},
    {"olmoe_7b", R"({"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe",
      "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
      "num_key_value_heads": 16, "intermediate_size": 1024, "num_experts": 64,
      "num_experts_per_tok": 8, "vocab_size": 50304})",
     6'919'161'856},
    {"qwen3_30b_a3b", R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
      "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
      "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144,
      "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
      "vocab_size": 151936})",
     30'532'122'624},
    {"gpt_oss_20b", R"({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
      "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
      "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
      "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
      "vocab_size": 201088})",
     20'914'757'184},
    // q_proj without a low rank; the first layer dense.
    {"deepseek_v2_lite", R"({"architectures": ["DeepseekV2ForCausalLM"],
      "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
      "num_attention_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "first_k_dense_replace": 1, "q_lora_rank": null, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "vocab_size": 102400})",
     15'706'484'224},
    {"deepseek_v3", R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
      "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
      "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
      "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
      "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280})",
     671'026'419'200},
};

const Case kOthers[] = {
    // (V + P + 2)·h + 2h + L·(12h² + 13h) + h² + h.
    {"bert_base", R"({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 768,
      "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
      "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522})",
     109'482'240},
    {"bert_large", R"({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 1024,
      "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
      "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522})",
     335'141'888},
    // No pooler; h² + h + 2h for the transform and V for the bias of the tied decoder.
    {"bert_base_masked", R"({"architectures": ["BertForMaskedLM"], "model_type": "bert",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2,
      "vocab_size": 30522})",
     109'514'298},
    // model_type follows from the architecture.
    {"roberta_base", R"({"architectures": ["RobertaModel"], "hidden_size": 768,
      "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
      "max_position_embeddings": 514, "type_vocab_size": 1, "vocab_size": 50265})",
     124'645'632},
    {"distilbert_base", R"({"architectures": ["DistilBertModel"], "model_type": "distilbert",
      "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072,
      "max_position_embeddings": 512, "vocab_size": 30522})",
     66'362'880},
    {"electra_base", R"({"architectures": ["ElectraModel"], "model_type": "electra",
      "hidden_size": 768, "embedding_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512,
      "type_vocab_size": 2, "vocab_size": 30522})",
     108'891'648},
    // One layer's weights for all twelve.
    {"albert_base", R"({"architectures": ["AlbertModel"], "model_type": "albert",
      "hidden_size": 768, "embedding_size": 128, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512,
      "type_vocab_size": 2, "vocab_size": 30000})",
     11'683'584},
    {"deberta_v3_base", R"({"architectures": ["DebertaV2Model"], "model_type": "deberta-v2",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 0,
      "vocab_size": 128100, "relative_attention": true, "share_att_key": true,
      "position_buckets": 256, "norm_rel_ebd": "layer_norm", "position_biased_input": false})",
     183'831'552},
    {"t5_small", R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
      "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
      "vocab_size": 32128})",
     60'506'624},
    {"t5_base", R"({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
      "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12,
      "vocab_size": 32128})",
     222'903'552},
    {"bart_large", R"({"architectures": ["BartModel"], "model_type": "bart", "d_model": 1024,
      "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
      "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
      "max_position_embeddings": 1024, "vocab_size": 50265})",
     406'291'456},
    {"whisper_tiny", R"({"architectures": ["WhisperForConditionalGeneration"],
      "model_type": "whisper", "d_model": 384, "encoder_layers": 4, "decoder_layers": 4,
      "encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536,
      "decoder_ffn_dim": 1536, "num_mel_bins": 80, "vocab_size": 51865})",
     37'760'640},
    {"whisper_large_v3", R"({"architectures": ["WhisperForConditionalGeneration"],
      "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
      "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120,
      "decoder_ffn_dim": 5120, "num_mel_bins": 128, "vocab_size": 51866})",
     1'543'490'560},
    {"vit_base_16", R"({"architectures": ["ViTForImageClassification"], "model_type": "vit",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_labels": 1000})",
     86'567'656},
    {"deit_base_distilled", R"({"architectures": ["DeiTForImageClassificationWithTeacher"],
      "model_type": "deit", "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224,
      "patch_size": 16, "num_labels": 1000})",
     87'338'192},
    {"beit_base", R"({"architectures": ["BeitForImageClassification"], "model_type": "beit",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "image_size": 224, "patch_size": 16,
      "use_relative_position_bias": true, "num_labels": 1000})",
     86'530'984},
    {"dinov2_base", R"({"architectures": ["Dinov2Model"], "model_type": "dinov2",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "mlp_ratio": 4,
      "image_size": 518, "patch_size": 14})",
     86'580'480},
    {"clip_large_14", R"({"architectures": ["CLIPModel"], "model_type": "clip",
      "projection_dim": 768,
      "text_config": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 49408, "max_position_embeddings": 77},
      "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24,
        "num_attention_heads": 16, "intermediate_size": 4096, "image_size": 224,
        "patch_size": 14}})",
     427'616'513},
    {"siglip_base", R"({"architectures": ["SiglipModel"], "model_type": "siglip",
      "text_config": {"hidden_size": 768, "vocab_size": 32000},
      "vision_config": {"hidden_size": 768, "image_size": 224, "patch_size": 16}})",
     203'155'970},
    {"wav2vec2_base_960h", R"({"architectures": ["Wav2Vec2ForCTC"], "model_type": "wav2vec2",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072, "vocab_size": 32})",
     94'396'320},
    {"hubert_base", R"({"architectures": ["HubertModel"], "model_type": "hubert",
      "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
      "intermediate_size": 3072})",
     94'371'712},
};

INSTANTIATE_TEST_SUITE_P(Decoders, PublishedParameters, testing::ValuesIn(kDecoders), test_name);
INSTANTIATE_TEST_SUITE_P(Others, PublishedParameters, testing::ValuesIn(kOthers), test_name);

}  // namespace
}  // namespace rooftile
