// The words of weights/FORMAT.md that mutations of a manifest put in.
#pragma once

#include <climits>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace dpi::fuzz {

using Json = nlohmann::ordered_json;

inline constexpr int64_t kOddIntegers[] = {0,
                                           -1,
                                           INT32_MAX,
                                           int64_t{1} << 31,
                                           (int64_t{1} << 31) - 2,
                                           int64_t{1} << 32,
                                           INT64_MAX,
                                           INT64_MIN,
                                           int64_t{1} << 53,
                                           65535,
                                           65536,
                                           65537,
                                           1 << 24,
                                           1 << 20,
                                           (1LL << 53) + 1LL,
                                           256,
                                           4096,
                                           1000};
inline constexpr double kOddFloats[] = {0.5, -0.5, 1e-300, 1e300, -1e38, 3.5e38, 1e-45, 1e-5, -0.0, 0.1};
inline constexpr const char* kOddTexts[] = {
    "",    " ",  "/", "..",  "/params/none", "a\nb", "\xe2\x80\xae", "\xf0\x9f\x98\x80",
    "nan", "-1", "0", "[0]", "k\xc3\xb6ln",  "\x01"};
inline constexpr const char* kWords[] = {
    "Input",     "Const",     "Embed",        "Mask",         "Linear", "MatMul",    "Binary",      "Unary",
    "LayerNorm", "Softmax",   "Reduce",       "Concat",       "View",   "Recurrent", "sum",         "mean",
    "max",       "sumsq",     "none",         "single",       "length", "id",        "nonzero",     "f32",
    "f16",       "bf16",      "i8",           "item",         "shared", "sequence",  "categorical", "numeric",
    "dense",     "oov",       "default",      "error",        "pad",    "first",     "last",        "pre",
    "post",      "relu",      "sigmoid",      "exp",          "dice",   "prelu",     "affine",      "reshape",
    "transpose", "slice",     "expand",       "index_select", "gru",    "augru",     "trim",        "to_id",
    "to_float",  "vocab_int", "vocab_string", "vocab_float",  "hash",   "field",     "ninf",        "i4",
    "i2",        "fp8"};
inline constexpr const char* kKeys[] = {
    "name",       "kind",     "space",   "vocab_size", "out_of_range", "missing",  "pad_id", "oov_id",
    "default_id", "dim",      "max_len", "keep",       "pad_side",     "weighted", "axis",   "eps",
    "empty",      "value",    "alpha",   "trans_a",    "trans_b",      "keepdim",  "mask",   "pooling",
    "groups",     "first_id", "ids",     "v",          "module",       "scale",    "data",   "tolerance",
    "rows",       "raw",      "stats",   "offset",     "unheard_of"};

/// Ops by FORMAT.md part 7; inputs and names are filled in.
inline constexpr const char* kOps[] = {
    R"({"op":"Unary","in":[""],"attrs":{"kind":"sigmoid"}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"exp"}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"log"}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"leaky","a":0.1}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"pow","a":-0.5}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"clamp","a":-1,"b":1}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"affine","a":1e20,"b":-3}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"affine"},"params":{"scale":"","shift":""}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"prelu"},"params":{"slope":""}})",
    R"({"op":"Unary","in":[""],"attrs":{"kind":"dice"},"params":{"alpha":"","scale":"","shift":""}})",
    R"({"op":"LayerNorm","in":[""],"attrs":{}})",
    R"({"op":"LayerNorm","in":[""],"attrs":{"eps":1e-3},"params":{"gamma":"","beta":""}})",
    R"({"op":"Softmax","in":[""],"attrs":{}})",
    R"({"op":"Softmax","in":["",""],"attrs":{"mask_mode":"ninf"}})",
    R"({"op":"Softmax","in":["",""],"attrs":{"mask_mode":"add","value":-2}})",
    R"({"op":"Binary","in":["",""],"attrs":{"kind":"add"}})",
    R"({"op":"Binary","in":["",""],"attrs":{"kind":"mul"}})",
    R"({"op":"Binary","in":["",""],"attrs":{"kind":"div"}})",
    R"({"op":"Binary","in":["",""],"attrs":{"kind":"max"}})",
    R"({"op":"Binary","in":["",""],"attrs":{"kind":"lt"}})",
    R"({"op":"Where","in":["","",""]})",
    R"({"op":"TopK","in":[""],"attrs":{"k":1}})",
    R"({"op":"TopK","in":[""],"attrs":{"k":2,"axis":0,"largest":false}})",
    R"({"op":"Gather","in":["",""],"attrs":{}})",
    R"({"op":"Gather","in":["",""],"attrs":{"axis":0}})",
    R"({"op":"Attention","in":["","",""],"attrs":{"causal":true}})",
    R"({"op":"Attention","in":["","","",""],"attrs":{"mask":"keys","empty":"mean"}})",
    R"({"op":"Attention","in":["","","",""],"attrs":{"form":"silu","divisor":3,"bias":"relative","candidates":1}})",
    R"({"op":"Reduce","in":[""],"attrs":{"kind":"sum","axis":-1,"keepdim":true}})",
    R"({"op":"Reduce","in":[""],"attrs":{"kind":"mean","axis":0}})",
    R"({"op":"Reduce","in":["",""],"attrs":{"kind":"max","axis":-1,"keepdim":true,"empty":3}})",
    R"({"op":"Concat","in":["",""],"attrs":{}})",
    R"({"op":"Concat","in":["","",""],"attrs":{"axis":0}})",
    R"({"op":"MatMul","in":["",""],"attrs":{}})",
    R"({"op":"MatMul","in":["",""],"attrs":{"trans_b":true,"alpha":0.5}})",
    R"({"op":"MatMul","in":["",""],"attrs":{"trans_a":true}})",
    R"({"op":"View","in":[""],"attrs":{"kind":"reshape","dims":[1,-1]}})",
    R"({"op":"View","in":[""],"attrs":{"kind":"reshape","dims":[-1,1]}})",
    R"({"op":"View","in":[""],"attrs":{"kind":"transpose","perm":[1,0]}})",
    R"({"op":"View","in":[""],"attrs":{"kind":"slice","axis":-1,"begin":0,"end":1}})",
    R"({"op":"View","in":[""],"attrs":{"kind":"index_select","axis":-1,"indices":[0,0]}})",
    R"({"op":"View","in":[""],"attrs":{"kind":"expand","dims":[3,4]}})",
    R"({"op":"Linear","in":[""],"attrs":{},"params":{"weight":"","bias":""}})",
    R"({"op":"Linear","in":[""],"attrs":{"axis":"field"},"params":{"weight":""}})",
    R"({"op":"Linear","in":[""],"attrs":{"groups":2},"params":{"weight":""}})",
    R"({"op":"Embed","in":[""],"attrs":{"table":"","pooling":"single"}})",
    R"({"op":"Embed","in":[""],"attrs":{"table":"","pooling":"mean","mask":"id"}})",
    R"({"op":"Embed","in":[""],"attrs":{"table":"","pooling":"none"}})",
    R"({"op":"Mask","in":[""],"attrs":{"rule":"length"}})",
    R"({"op":"Mask","in":[""],"attrs":{"rule":"nonzero"}})",
    R"({"op":"Const","in":[],"attrs":{},"params":{"value":""}})",
    R"({"op":"Input","in":[],"attrs":{"feature":""}})",
    R"({"op":"Recurrent","in":["",""],"attrs":{"kind":"gru"},"params":{"w_input":"","w_hidden":""}})",
    R"({"op":"Recurrent","in":["","",""],"attrs":{"kind":"augru","output":"all"},"params":{"w_input":"","w_hidden":"","b_input":"","b_hidden":""}})"};

/// A key and JSON texts that it may have.
struct Attribute {
  const char* key;
  std::vector<const char*> values;
};
inline const Attribute kAttributes[] = {
    {"kind", {R"("add")",       R"("sub")",      R"("div")",      R"("min")",  R"("relu")", R"("tanh")",
              R"("abs")",       R"("sqrt")",     R"("rsqrt")",    R"("silu")", R"("selu")", R"("gelu_erf")",
              R"("gelu_tanh")", R"("softplus")", R"("identity")", R"("elu")",  R"("mean")", R"("sumsq")",
              R"("agru")",      R"("vecatt")",   R"("le")",       R"("eq")",   R"("ne")",   R"("atan2")",
              R"("sin")",       R"("cos")",      R"("sign")"}},
    {"axis", {"-1", "0", "1", "-2", "4", "-5", "5", R"("last")", R"("field")"}},
    {"keepdim", {"true", "false", "1"}},
    {"eps", {"0", "1e-12", "-1", "1e300"}},
    {"empty", {"0", "-2.5", "1e39"}},
    {"alpha", {"0", "-1", "1e30", "1e39"}},
    {"a", {"0", "-1", "1e30", "0.5"}},
    {"b", {"0", "-1", "1e30"}},
    {"trans_a", {"true", "false"}},
    {"trans_b", {"true", "false"}},
    {"groups", {"1", "2", "3", "0", "-1"}},
    {"pooling", {R"("single")", R"("none")", R"("sum")", R"("mean")", R"("max")"}},
    {"mask", {R"("length")", R"("id")", R"("none")", R"("nonzero")"}},
    {"mask_mode", {R"("none")", R"("ninf")", R"("add")", R"("replace")"}},
    {"rule", {R"("length")", R"("id")", R"("nonzero")"}},
    {"dims", {"[2,3]", "[-1]", "[1,1,1,1,1]", "[]", "[4096,4096]", "[0]", "[-1,-1]", "[2,-1,2]"}},
    {"perm", {"[0]", "[1,0]", "[0,0]", "[2,0,1]", "[-1]"}},
    {"indices", {"[0]", "[]", "[1,0,1]", "[-1]", "[99999999999]"}},
    {"begin", {"0", "1", "-1", "99"}},
    {"end", {"0", "1", "2", "-1", "9223372036854775807"}},
    {"reset", {R"("after")", R"("before")"}},
    {"output", {R"("last")", R"("all")"}}};
inline const Attribute kFeatureKeys[] = {
    {"kind", {R"("categorical")", R"("sequence")", R"("numeric")", R"("dense")"}},
    {"space", {R"("item")", R"("shared")"}},
    {"vocab_size", {"1", "2", "5", "0", "2147483646", "9223372036854775807"}},
    {"out_of_range", {R"("oov")", R"("default")", R"("error")"}},
    {"missing", {R"("pad")", R"("default")", R"("error")"}},
    {"pad_id", {"0", "1", "4", "-1"}},
    {"oov_id", {"0", "1", "99"}},
    {"default_id", {"0", "2", "-7"}},
    {"missing_id", {"-1", "0", "3"}},
    {"default", {"0", "0.25", "1e30", "1e39"}},
    {"dim", {"1", "2", "3", "65536", "0"}},
    {"max_len", {"0", "1", "2", "5", "64", "65536", "65537"}},
    {"keep", {R"("first")", R"("last")"}},
    {"pad_side", {R"("pre")", R"("post")"}},
    {"weighted", {"true", "false"}},
    {"stats", {R"({"missing_rate":0.5,"quantiles":{"0.5":1}})", "{}", "7"}}};
inline constexpr const char* kSteps[] = {
    R"({"op":"trim"})",
    R"({"op":"lower"})",
    R"({"op":"upper"})",
    R"({"op":"missing","values":["?","NA"]})",
    R"({"op":"hash","algorithm":"xxh64","seed":1,"modulus":5,"offset":0})",
    R"({"op":"hash","algorithm":"murmur3_32","seed":4294967295,"modulus":9223372036854775807,"offset":-1})",
    R"({"op":"to_id"})",
    R"({"op":"to_float"})",
    R"({"op":"clip","lo":-1,"hi":1})",
    R"({"op":"clip","lo":1,"hi":-1})",
    R"({"op":"log1p"})",
    R"({"op":"signed_log1p"})",
    R"({"op":"standard","mean":1,"std":0})",
    R"({"op":"standard","mean":1,"std":1e-300})",
    R"({"op":"minmax","min":0,"max":0})",
    R"({"op":"minmax","min":-1,"max":4,"lo":1,"hi":-1})",
    R"({"op":"buckets","boundaries":[-1,0,1,2],"right":true,"first_id":1})",
    R"({"op":"buckets","boundaries":[],"first_id":9223372036854775807})",
    R"({"op":"vocab_string","bytes":"/encoders/city.bytes","offsets":"/encoders/city.offsets","first_id":1})",
    R"({"op":"vocab_int","keys":"/encoders/tags.keys","first_id":0})",
    R"({"op":"vocab_float","keys":"/encoders/tags.keys","first_id":0})"};
inline constexpr const char* kSplitters[] = {"", "|", "^", " ", "||"};

}  // namespace dpi::fuzz
