// A model file taken apart into its sections, so that each can be changed and the file put together
// again with sizes, offsets and checksums that hold: what a hostile author would do.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "converter/config_parts.h"
#include "quant/format/format.h"
#include "tests/fuzz/byte_feed.h"

namespace cria::fuzz {

using Bytes = std::vector<uint8_t>;

// What an edit changes. 1 to 7 are values of format::SectionKind.
enum class EditTarget : uint8_t {
  kHeader = 0,       // header and section table, put together; their checksum is mended afterwards
  kWholeFile = 8,    // the finished file: what breaks checksums
  kText = 9,         // the text that the model is asked to encode
  kSourceBytes = 10  // what the source says of its size
};
inline constexpr uint8_t kEditTargets = 11;

enum class EditKind : uint8_t {
  kWrite = 0,    // payload, from offset on
  kAdd = 1,      // payload (u32) to the u32 at offset
  kInsert = 2,   // payload
  kErase = 3,    // payload (u16) bytes
  kRepeat = 4,   // payload: u16 bytes from offset on come u8 times more
  kResize = 5,   // to payload (u32) bytes
  kDerive = 6,   // directory, chunk table and data become what the config asks for; payload: fill
                 // (kinds, layers and counts become as many as the scalars ask for first)
  kMoveLast = 7  // the section becomes the last one
};
inline constexpr uint8_t kEditKinds = 8;

// In an input: kind u8, target u8, offset u24, payload size u8, payload.
struct Edit {
  EditKind kind;
  uint8_t target;
  uint32_t offset;
  std::span<const uint8_t> payload;
};
inline constexpr size_t kEditHeaderBytes = 6;

[[nodiscard]] Edit take_edit(ByteFeed* feed);
// Changes bytes that are no model file, whatever the edit's target.
void apply_edit(const Edit& edit, Bytes* bytes);

class ModelDraft {
 public:
  // file: a valid model file.
  explicit ModelDraft(std::span<const uint8_t> file);

  void apply(const Edit& edit);
  // Empty: the section goes.
  void replace(format::SectionKind kind, std::span<const uint8_t> bytes);

  // The file. Edits of header and whole file come in here.
  [[nodiscard]] Bytes assemble() const;
  [[nodiscard]] std::span<const uint8_t> text() const { return text_; }
  // The size that the source tells, for a file of so many bytes: never more than there are.
  [[nodiscard]] uint64_t source_bytes(uint64_t file_bytes) const;

 private:
  struct LateEdit {
    EditKind kind;
    uint32_t offset;
    Bytes payload;
  };

  [[nodiscard]] Bytes* section(format::SectionKind kind);
  // As many kinds and layers as the scalars ask for; none where these are too many or too few.
  [[nodiscard]] std::optional<ConfigParts> asked_config();
  void derive(std::span<const uint8_t> fill);
  void lay_out(Bytes* file) const;

  // By kind; chunk offsets count from the start of the data.
  std::array<Bytes, 8> sections_;
  std::vector<uint32_t> order_;
  format::ModelScalars laid_out_ = {};  // of the config as it was before edits: where its parts are
  Bytes text_;
  std::vector<LateEdit> header_edits_;
  std::vector<LateEdit> file_edits_;
  uint32_t missing_bytes_ = 0;
};

}  // namespace cria::fuzz
