#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string_view>
#include <system_error>

#include "converter/checkpoint.h"
#include "converter/error.h"
#include "converter/gguf/gguf_checkpoint.h"
#include "converter/hugging_face_folder.h"
#include "converter/llama2c/llama2c_checkpoint.h"
#include "platforms/hosted/base/file_kind.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr const char* kReadable =
    "; give a Hugging Face folder, a .gguf file or a .bin file of llama2.c";

constexpr std::string_view kPyTorchAdvice =
    "holds PyTorch weights, which can run code when they are read; take the model as safetensors, "
    "or save it so with transformers (save_pretrained)";
constexpr std::string_view kOldGgmlAdvice =
    "is in a format before GGUF, which is not read; take the model as GGUF";
constexpr std::string_view kOnnxAdvice =
    "is an ONNX graph, which is not read; take the model it was made of as safetensors or GGUF";

// Files that people have and that are refused, by how they begin.
struct Beginning {
  std::string_view bytes;
  std::string_view advice;
};

constexpr Beginning kRefusedBeginnings[] = {
    {"PK\x03\x04"sv, kPyTorchAdvice},
    {"\x80\x02"sv, kPyTorchAdvice},
    {"\x80\x04"sv, kPyTorchAdvice},
    {"lmgg"sv, kOldGgmlAdvice},
    {"fmgg"sv, kOldGgmlAdvice},
    {"tjgg"sv, kOldGgmlAdvice},
    {"algg"sv, kOldGgmlAdvice},
    {"CRIA"sv, "is a model file of cria already: run it with cria"},
};

// And by how they are called.
struct Ending {
  std::string_view name;
  std::string_view advice;
};

constexpr Ending kRefusedEndings[] = {
    {".pth", kPyTorchAdvice},
    {".pt", kPyTorchAdvice},
    {".ckpt", kPyTorchAdvice},
    {".ggml", kOldGgmlAdvice},
    {".onnx", kOnnxAdvice},
    {".safetensors",
     "is one file of a checkpoint; give its folder, with config.json and tokenizer"},
    {".json", "is one file of a checkpoint; give its folder"},
};

bool begins(const InputFile& file, std::string_view bytes) {
  std::array<uint8_t, 8> beginning;
  if (bytes.size() > beginning.size() || file.size_bytes() < bytes.size()) return false;
  file.read(0, std::span(beginning).first(bytes.size()));
  return std::memcmp(beginning.data(), bytes.data(), bytes.size()) == 0;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::unique_ptr<Checkpoint> open_file(const fs::path& path,
                                      const std::optional<fs::path>& tokenizer) {
  const InputFile file(path);
  const bool is_gguf_file = is_gguf(file);
  if (is_gguf_file && tokenizer) {
    throw ProgramError(ExitCode::kUsage, "--tokenizer belongs to .bin files of llama2.c");
  }
  if (is_gguf_file) return std::make_unique<GgufCheckpoint>(path);
  if (is_llama2c(file)) return std::make_unique<Llama2cCheckpoint>(path, tokenizer);
  const std::string name = lower_case(path.filename().string());
  for (const Beginning& refused : kRefusedBeginnings) {
    if (begins(file, refused.bytes)) refuse(path, std::string(refused.advice));
  }
  for (const Ending& refused : kRefusedEndings) {
    if (name.ends_with(refused.name)) refuse(path, std::string(refused.advice));
  }
  if (!name.ends_with(".bin")) {
    refuse(path, "is a file of a kind that is not known" + std::string(kReadable));
  }
  return std::make_unique<Llama2cCheckpoint>(path, tokenizer);
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& path,
                                            const std::optional<fs::path>& tokenizer) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw ProgramError(ExitCode::kIo,
                       path.string() + ": cannot be looked up: " + error.message() + kReadable);
  }
  if (!fs::exists(status)) {
    refuse(path, "no such folder or file" + std::string(kReadable));
  }
  if (fs::is_regular_file(status)) return open_file(path, tokenizer);
  if (!fs::is_directory(status)) {
    struct stat info = {};
    const bool is_known = ::stat(path.c_str(), &info) == 0;
    refuse(path, std::string("is ") + (is_known ? hosted::file_kind(info.st_mode) : "no file") +
                     kReadable);
  }
  if (tokenizer) {
    throw ProgramError(ExitCode::kUsage, "--tokenizer belongs to .bin files of llama2.c");
  }
  return std::make_unique<HuggingFaceFolder>(path);
}

}  // namespace cria::converter
