// The XNNPACK backend as models and workspaces use it: planned, loaded from a file's chunks,
// multiplied with.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "platforms/hosted/base/thread_pool.h"
#include "quant/format/checksum.h"
#include "quant/model/model_layout.h"
#include "quant/numbers/float16.h"
#include "runtime/backends/backend.h"
#include "runtime/weights/weight_loader.h"
#include "tests/support/cpu_time.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"

namespace {

// Allocations from the heap while it is nonzero.
std::atomic<int> g_trap_armed = 0;
std::atomic<size_t> g_allocations = 0;

void count_allocation() {
  if (g_trap_armed.load() != 0) g_allocations.fetch_add(1);
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Of the sanitizers' run-time library, whose header not every compiler brings.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __sanitizer_install_malloc_and_free_hooks(
    void (*on_malloc)(const volatile void* block, size_t n_bytes),
    void (*on_free)(const volatile void* block));
namespace {
void on_malloc(const volatile void* /*block*/, size_t /*n_bytes*/) { count_allocation(); }
void on_free(const volatile void* /*block*/) {}
const int kHooked = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}  // namespace
#else
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
// The C library's own names, so that operator new and every library are seen too.
extern "C" {
void* __libc_malloc(size_t n_bytes);
void* __libc_calloc(size_t n, size_t n_bytes);
void* __libc_realloc(void* block, size_t n_bytes);
void* __libc_memalign(size_t alignment, size_t n_bytes);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
void* malloc(size_t n_bytes) {
  count_allocation();
  return __libc_malloc(n_bytes);
}
void* calloc(size_t n, size_t n_bytes) {
  count_allocation();
  return __libc_calloc(n, n_bytes);
}
void* realloc(void* block, size_t n_bytes) {
  count_allocation();
  return __libc_realloc(block, n_bytes);
}
void* aligned_alloc(size_t alignment, size_t n_bytes) {
  count_allocation();
  return __libc_memalign(alignment, n_bytes);
}
int posix_memalign(void** block, size_t alignment, size_t n_bytes) {
  count_allocation();
  *block = __libc_memalign(alignment, n_bytes);
  return *block != nullptr ? 0 : ENOMEM;
}
}
namespace {
constexpr int kHooked = 1;
}  // namespace
#endif

namespace cria {
namespace {

using format::NumberFormat;
using format::TensorRole;

constexpr uint32_t kSeed = 77;
constexpr uint32_t kPrefillChunk = 64;
constexpr double kEpsilon = 0x1p-24;
constexpr float kCanary = 12345.0f;

// Memory aligned as an arena is.
struct Block {
  explicit Block(uint64_t n_bytes) : memory(static_cast<size_t>(n_bytes)) {}
  uint8_t* data() { return static_cast<uint8_t*>(memory.data()); }
  [[nodiscard]] std::vector<uint8_t> bytes() { return {data(), data() + memory.size()}; }
  test::AlignedMemory memory;
};

std::vector<uint8_t> random_matrix(const MatrixShape& shape, std::mt19937* random) {
  std::vector<uint8_t> planes(matrix_bytes(shape), 0);
  const size_t padded = padded_cols(shape);
  std::normal_distribution<float> normal;
  const auto scale = [&] {
    return (*random)() % 16 == 0 ? 0.0f : std::fabs(normal(*random)) + 0.1f;
  };
  for (size_t tile = 0; tile < tile_count(shape.rows); ++tile) {
    uint8_t* codes = planes.data() + tile * tile_code_bytes(shape);
    uint8_t* scales = planes.data() + code_plane_bytes(shape) + tile * tile_scale_bytes(shape);
    const size_t n_rows = std::min<size_t>(kTileRows, shape.rows - tile * kTileRows);
    std::vector<int8_t> in(n_rows * padded, 0);
    std::vector<float> values(n_rows * shape.cols);
    for (float& value : values) value = normal(*random);
    const int most = shape.number_format == NumberFormat::kInt4 ? 7 : 127;
    for (size_t i = 0; i < values.size(); ++i) {
      const int code = std::uniform_int_distribution<int>(-most, most)(*random);
      in[i / shape.cols * padded + i % shape.cols] = static_cast<int8_t>(code);
    }
    if (shape.number_format == NumberFormat::kInt4) {
      std::vector<uint16_t> bits(n_rows * (padded / shape.group_size));
      for (uint16_t& b : bits) b = f32_to_bf16(scale());
      pack_group_tile(shape, in.data(), bits.data(), n_rows, codes, scales);
    } else if (shape.number_format == NumberFormat::kInt8) {
      std::vector<float> row_scales(n_rows);
      for (float& s : row_scales) s = scale();
      pack_int8_tile(shape, in.data(), row_scales.data(), n_rows, codes, scales);
    } else {
      pack_float_tile(shape, values.data(), n_rows, codes);
    }
  }
  return planes;
}

// Of a stack the codes of all matrices come before their scales.
std::vector<uint8_t> random_matrices(const TensorSpec& spec, std::mt19937* random) {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  for (uint32_t i = 0; i < spec.n_matrices; ++i) {
    const std::vector<uint8_t> planes = random_matrix(spec.shape, random);
    const auto middle = planes.begin() + std::ptrdiff_t(code_plane_bytes(spec.shape));
    codes.insert(codes.end(), planes.begin(), middle);
    scales.insert(scales.end(), middle, planes.end());
  }
  codes.insert(codes.end(), scales.begin(), scales.end());
  return codes;
}

// The chunk table and the data of an uncompressed file, and nothing else of it.
struct Image {
  std::vector<std::vector<uint8_t>> tensors;
  std::vector<uint8_t> bytes;
  FileIndex index = {};
};

void add_plane(const uint8_t* plane, uint64_t n_bytes, Image* image,
               std::vector<format::ChunkEntry>* entries) {
  for (uint64_t done = 0; done < n_bytes;) {
    image->bytes.resize(round_up(image->bytes.size(), format::kAlignment));
    format::ChunkEntry e = {};
    e.offset = image->bytes.size();
    e.raw_bytes = static_cast<uint32_t>(std::min<uint64_t>(n_bytes - done, format::kChunkRawBytes));
    e.stored_bytes = e.raw_bytes;
    e.checksum = xxh64(plane + done, e.raw_bytes);
    image->bytes.insert(image->bytes.end(), plane + done, plane + done + e.raw_bytes);
    entries->push_back(e);
    done += e.raw_bytes;
  }
}

Image make_image(const Config& config) {
  std::mt19937 random(kSeed);
  Image image;
  std::vector<format::ChunkEntry> entries;
  const uint64_t table_bytes = chunk_count(config) * sizeof(format::ChunkEntry);
  const std::vector<MatrixFormat> formats = test::formats_of(config);
  const uint64_t directory_bytes = formats.size() * sizeof(format::TensorEntry);
  image.bytes.resize(table_bytes + directory_bytes);
  std::vector<format::TensorEntry> directory;
  for (uint32_t i = 0; i < formats.size(); ++i) {
    const TensorSpec spec = tensor_spec(config, i, formats[i]);
    directory.push_back(tensor_entry(spec, static_cast<uint32_t>(entries.size())));
    image.tensors.push_back(spec.is_matrix() ? random_matrices(spec, &random)
                                             : std::vector<uint8_t>(tensor_bytes(spec)));
    const uint64_t n_codes = tensor_code_bytes(spec);
    add_plane(image.tensors[i].data(), n_codes, &image, &entries);
    add_plane(image.tensors[i].data() + n_codes, tensor_scale_bytes(spec), &image, &entries);
  }
  std::memcpy(image.bytes.data(), entries.data(), table_bytes);
  std::memcpy(image.bytes.data() + table_bytes, directory.data(), directory_bytes);
  image.index.config = config;
  image.index.directory = {table_bytes, directory_bytes, 0};
  image.index.chunk_table = {0, table_bytes, 0};
  image.index.data = {entries.front().offset, image.bytes.size() - entries.front().offset, 0};
  image.index.n_chunks = static_cast<uint32_t>(entries.size());
  return image;
}

int read_image(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  std::memcpy(destination, static_cast<const Image*>(context)->bytes.data() + offset, n_bytes);
  return 0;
}

// As much of a model and a workspace as the backend touches.
class BackendTest : public testing::Test {
 protected:
  void open(ConfigParts wished, uint32_t n_threads) {
    parts = std::move(wished);
    const Config config = parts.view();
    image = make_image(config);
    pool = std::make_unique<hosted::ThreadPool>(n_threads, hosted::FewerThreads::kAreRefused);
    ASSERT_EQ(kXnnpackBackend.needs(config, n_threads, kPrefillChunk, &needs), Status::kOk);
    packed = std::make_unique<Block>(needs.model_bytes);
    operators = std::make_unique<Block>(needs.workspace_bytes);
    loading = std::make_unique<Block>(needs.load_bytes);
    threads = {n_threads, pool->hook(), pool->context()};
    bind(config);
    quantized.assign(most_inputs(config, kPrefillChunk).values + kSlack, 0);
    of_step = std::make_unique<Block>(needs.step_bytes);
    scratch = {quantized.data(), nullptr, nullptr, of_step->data()};
  }

  Status load(uint64_t n_bytes) {
    const cria_source source = {&image, image.bytes.size(), nullptr, read_image};
    // Chunks are stored: none is decompressed.
    LoadProgress progress(nullptr, nullptr, 0);
    const PackSource from = {source, image.index, threads, loading->data(), nullptr, &progress};
    return kXnnpackBackend.load(from, &weights, packed->data(), n_bytes);
  }
  Status load() { return load(needs.model_bytes); }

  Status start(Block* memory, uint64_t n_bytes) {
    return kXnnpackBackend.start(image.index.config, weights, memory->data(), n_bytes);
  }
  Status start() { return start(operators.get(), needs.workspace_bytes); }

  Status linear(Block* memory, const float* x, std::span<const Segment> segments,
                std::span<const LinearCall> calls) {
    const LinearTools tools = {kScalarKernels, threads, scratch, memory->data()};
    return kXnnpackBackend.linear(tools, x, segments, calls);
  }
  Status linear(Block* memory, const float* x, size_t n_rows, std::span<const LinearCall> calls) {
    const Segment all = {0, 0, static_cast<uint32_t>(n_rows)};
    return linear(memory, x, {&all, 1}, calls);
  }
  Status linear(const float* x, size_t n_rows, std::span<const LinearCall> calls) {
    return linear(operators.get(), x, n_rows, calls);
  }

  // The tensors as they are before a backend packs those without a place.
  void bind(const Config& config) {
    const std::vector<MatrixFormat> formats = test::formats_of(config);
    const size_t n_objects = config.kinds.size() + config.layers.size() + formats.size() + 8;
    objects = std::make_unique<Block>(n_objects * kKindObjectBytes);
    Carver carver(objects->data());
    lay_out_weights(config, &carver, &weights);
    ASSERT_LE(carver.taken(), objects->memory.size());
    TensorWalk walk(config);
    TensorSpec spec = {};
    for (uint32_t i = 0; i < formats.size() && walk.next(formats[i], &spec); ++i) {
      Tensor& tensor = weights.tensors[i];
      tensor.shape = spec.shape;
      tensor.n_matrices = spec.n_matrices;
      tensor.number = i;
      tensor.form = spec.form;
      if (is_kept(spec, KeptTensors::kVectorsAndTables)) tensor.codes = image.tensors[i].data();
      const bool is_tied = has_flag(config, format::kTiedEmbedding);
      if (is_tied && spec.role == TensorRole::kEmbedding) *weights.lm_head = tensor;
    }
  }

  [[nodiscard]] const Tensor& matrix(size_t layer, TensorRole role) const {
    return *weights.layers[layer].find(role);
  }

  // A row's segments as its block asks for them: each head has all rows; of experts each row has
  // some, and some have none.
  std::vector<Segment> segments_of(const Tensor& tensor, const format::LayerKind& kind,
                                   uint32_t n_rows, bool is_of_experts) {
    std::vector<uint32_t> rows_of_each(tensor.n_matrices, is_of_experts ? 0 : n_rows);
    std::vector<uint32_t> experts(tensor.n_matrices);
    std::iota(experts.begin(), experts.end(), 0);
    for (uint32_t i = 0; is_of_experts && i < n_rows; ++i) {
      std::shuffle(experts.begin(), experts.end(), random);
      for (uint32_t rank = 0; rank < kind.n_chosen; ++rank) ++rows_of_each[experts[rank]];
    }
    std::vector<Segment> segments;
    uint32_t first = 0;
    for (uint32_t i = 0; i < tensor.n_matrices; ++i) {
      if (rows_of_each[i] != 0) segments.push_back({i, first, rows_of_each[i]});
      first += rows_of_each[i];
    }
    return segments;
  }

  // Multiplies the matrices, which share an input, and compares.
  void check_linear(const std::vector<const Tensor*>& matrices,
                    const std::vector<Segment>& segments) {
    const uint32_t cols = matrices.front()->shape.cols;
    const size_t n_rows = rows_of(segments);
    std::vector<float> x(n_rows * cols + kSlack, 0.0f);
    for (float& value : x) value = normal(random);
    std::vector<std::vector<float>> outputs;
    outputs.reserve(matrices.size());
    std::vector<LinearCall> calls;
    for (const Tensor* m : matrices) {
      outputs.emplace_back(n_rows * m->shape.rows + 1, kCanary);
      calls.push_back({m, outputs.back().data()});
    }
    g_allocations = 0;
    g_trap_armed = 1;
    const Status status = linear(operators.get(), x.data(), segments, calls);
    g_trap_armed = 0;
    ASSERT_EQ(status, Status::kOk);
    ASSERT_EQ(g_allocations, 0u);
    for (size_t i = 0; i < matrices.size(); ++i) {
      ASSERT_EQ(outputs[i].back(), kCanary);
      for (const Segment& segment : segments) {
        compare(*matrices[i], segment, x, outputs[i]);
        if (HasFatalFailure()) return;
      }
    }
  }

  void compare(const Tensor& m, const Segment& segment, const std::vector<float>& all_x,
               const std::vector<float>& all_y) {
    const MatrixShape& shape = m.shape;
    const size_t n_rows = segment.n_rows;
    const float* const x = all_x.data() + size_t{segment.first_row} * shape.cols;
    const float* const y = all_y.data() + size_t{segment.first_row} * shape.rows;
    const bool is_float = tile_scale_bytes(shape) == 0;
    const uint8_t* const planes = image.tensors[m.number].data();
    const uint8_t* const codes = planes + segment.index * code_plane_bytes(shape);
    const uint8_t* const scales =
        planes + m.n_matrices * code_plane_bytes(shape) + segment.index * scale_plane_bytes(shape);
    // Rounded additions as in xnnpack_operator_test.cpp, the widest of the formats.
    const double bound = (double(padded_cols(shape)) + 4) * kEpsilon;
    ASSERT_LE(bound, 1e-4);
    std::vector<float> input(x, x + n_rows * shape.cols);
    if (!is_float) round_input(shape, &input, n_rows);
    std::vector<float> row_weights(shape.cols);
    for (size_t row = 0; row < shape.rows; ++row) {
      unpack_row(shape, codes, scales, row, row_weights.data());
      for (size_t i = 0; i < n_rows; ++i) {
        double sum = 0;
        double magnitude = 0;
        for (size_t col = 0; col < shape.cols; ++col) {
          const double term = static_cast<double>(input[i * shape.cols + col]) *
                              static_cast<double>(row_weights[col]);
          sum += term;
          magnitude += std::fabs(term);
        }
        ASSERT_LE(std::fabs(sum - static_cast<double>(y[i * shape.rows + row])), bound * magnitude)
            << "tensor " << m.number << " matrix " << segment.index << " row " << row << " of "
            << n_rows << " seed " << kSeed;
        ++n_compared;
      }
    }
  }

  // What the rows are worth once quantized, one scale a row.
  static void round_input(const MatrixShape& shape, std::vector<float>* x, size_t n_rows) {
    const size_t padded = padded_cols(shape);
    std::vector<int8_t> codes(padded);
    for (size_t i = 0; i < n_rows; ++i) {
      float* row = x->data() + i * shape.cols;
      float scale = 0.0f;
      kScalarKernels.quantize_row(row, shape.cols, padded, padded, codes.data(), &scale, nullptr);
      for (size_t col = 0; col < shape.cols; ++col)
        row[col] = static_cast<float>(codes[col]) * scale;
    }
  }

  // Roles whose products share an input, some of which a layer may have.
  static std::vector<std::vector<TensorRole>> groups_of(const format::LayerKind& kind) {
    std::vector<std::vector<TensorRole>> groups = {
        {TensorRole::kO},         {TensorRole::kGate, TensorRole::kUp},
        {TensorRole::kDown},      {TensorRole::kExpertGate, TensorRole::kExpertUp},
        {TensorRole::kRouter},    {TensorRole::kExpertDown},
        {TensorRole::kSharedGate}};
    if (kind.mixer == static_cast<uint8_t>(format::Mixer::kLatentAttention)) {
      groups.push_back({TensorRole::kQDown, TensorRole::kLatentDown, TensorRole::kK});
      for (const TensorRole role : {TensorRole::kQ, TensorRole::kKeyUp, TensorRole::kValueUp}) {
        groups.push_back({role});
      }
    } else {
      groups.push_back({TensorRole::kQ, TensorRole::kK, TensorRole::kV});
    }
    return groups;
  }

  void check_group(const Layer& layer, const std::vector<TensorRole>& roles, uint32_t n_rows) {
    std::vector<const Tensor*> matrices;
    for (const TensorRole role : roles) {
      const Tensor* const matrix = layer.find(role);
      if (matrix != nullptr && matrix->form != TensorForm::kVector) matrices.push_back(matrix);
    }
    if (matrices.empty()) return;
    const bool is_of_experts =
        roles.back() == TensorRole::kExpertUp || roles.back() == TensorRole::kExpertDown;
    n_stacks += matrices.front()->n_matrices > 1 ? 1 : 0;
    check_linear(matrices, segments_of(*matrices.front(), *layer.kind, n_rows, is_of_experts));
  }

  void check_model(ConfigParts config, uint32_t n_threads) {
    ASSERT_EQ(check_config(config.view()), nullptr);
    open(config, n_threads);
    if (HasFatalFailure()) return;
    g_allocations = 0;
    g_trap_armed = 1;
    const Status status = load();
    const Status started = start();
    g_trap_armed = 0;
    ASSERT_EQ(status, Status::kOk);
    ASSERT_EQ(started, Status::kOk);
    EXPECT_EQ(g_allocations, 0u);
    // What it was packed with is not needed any more.
    loading.reset();
    const std::vector<uint8_t> as_packed = packed->bytes();
    for (const uint32_t n_rows : {1u, 2u, 7u, 64u, 1u}) {
      for (const std::vector<TensorRole>& roles : groups_of(*weights.layers.back().kind)) {
        check_group(weights.layers.back(), roles, n_rows);
        if (HasFatalFailure()) return;
      }
      check_linear({weights.lm_head}, {{0, 0, n_rows}});
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(std::memcmp(packed->data(), as_packed.data(), as_packed.size()), 0)
        << "products change nothing of the model";
    EXPECT_GT(n_compared, 0u);
  }

  static constexpr size_t kSlack = 128;
  ConfigParts parts;
  Image image;
  BackendNeeds needs = {};
  std::unique_ptr<hosted::ThreadPool> pool;
  Threads threads = {};
  std::unique_ptr<Block> packed;     // of the model
  std::unique_ptr<Block> operators;  // of a workspace
  std::unique_ptr<Block> loading;
  std::unique_ptr<Block> of_step;
  std::vector<int8_t> quantized;
  LinearScratch scratch = {};
  std::unique_ptr<Block> objects;
  Weights weights = {};
  std::mt19937 random{kSeed};
  std::normal_distribution<float> normal;
  size_t n_compared = 0;
  size_t n_stacks = 0;  // products by stacks
};

void set_heads(uint16_t n_query_heads, uint16_t n_key_heads, uint16_t head_dim, ConfigParts* c) {
  format::LayerKind& kind = c->kinds[0];
  kind.n_query_heads = n_query_heads;
  kind.n_key_heads = kind.n_value_heads = n_key_heads;
  test::set_head_dim(c, head_dim);
}

// Sizes that are no multiple of anything; the larger matrices take several slices and chunks.
ConfigParts odd_config(NumberFormat weights, uint16_t group_size) {
  ConfigParts c = test::small_config(weights, group_size);
  set_heads(5, 1, 18, &c);
  c.kinds[0].d_ff = 1101;
  c.model.d_model = 150;
  c.model.vocab_size = 1003;
  return c;
}

TEST_F(BackendTest, Int4MatchesTheReferenceWithoutTheHeap) {
  for (const uint16_t group_size : {uint16_t{32}, uint16_t{64}, uint16_t{128}}) {
    check_model(odd_config(NumberFormat::kInt4, group_size), 3);
  }
}
TEST_F(BackendTest, Int8MatchesTheReferenceWithoutTheHeap) {
  check_model(odd_config(NumberFormat::kInt8, 0), 3);
}
TEST_F(BackendTest, F32MatchesTheReferenceWithoutTheHeap) {
  check_model(odd_config(NumberFormat::kF32, 0), 3);
}
TEST_F(BackendTest, F16MatchesTheReferenceWithoutTheHeap) {
  check_model(odd_config(NumberFormat::kF16, 0), 2);
}
TEST_F(BackendTest, Bf16MatchesTheReferenceWithoutTheHeap) {
  check_model(odd_config(NumberFormat::kBf16, 0), 1);
}

TEST_F(BackendTest, ATiedEmbeddingIsPackedAsTheLanguageModelHead) {
  ConfigParts c = odd_config(NumberFormat::kInt4, 32);
  c.model.flags |= format::kTiedEmbedding;
  test::mend_counts(&c);
  check_model(c, 2);
}

// Gives the layers' matrices of a role these formats, the last one to the rest of the layers; the
// others stay.
void set_formats(TensorRole role, std::initializer_list<MatrixFormat> formats, ConfigParts* c) {
  std::vector<MatrixFormat> of_all = test::formats_of(c->view());
  for (uint32_t i = 0; i < of_all.size(); ++i) {
    const TensorSpec spec = tensor_spec(c->view(), i, of_all[i]);
    if (spec.role == role) {
      of_all[i] = *(formats.begin() + std::min<size_t>(spec.layer, formats.size() - 1));
    }
  }
  test::set_formats(c, of_all);
}

TEST_F(BackendTest, MatricesOfOneInputMayHaveDifferentFormats) {
  ConfigParts c = odd_config(NumberFormat::kInt4, 32);
  set_formats(TensorRole::kK, {{NumberFormat::kF32, 0}}, &c);
  set_formats(TensorRole::kV, {{NumberFormat::kInt4, 128}}, &c);
  set_formats(TensorRole::kUp, {{NumberFormat::kInt8, 0}}, &c);
  check_model(c, 2);
}

TEST_F(BackendTest, LayersMayHaveDifferentFormats) {
  ConfigParts c = odd_config(NumberFormat::kInt4, 32);
  c.layers.assign(3, 0);
  test::mend_counts(&c);
  set_formats(TensorRole::kQ,
              {{NumberFormat::kInt8, 0}, {NumberFormat::kInt4, 64}, {NumberFormat::kF16, 0}}, &c);
  set_formats(TensorRole::kDown,
              {{NumberFormat::kInt4, 32}, {NumberFormat::kInt4, 128}, {NumberFormat::kInt8, 0}},
              &c);
  for (const uint32_t n_threads : {1u, 3u}) check_model(c, n_threads);
}

// Latent attention and experts beside an MLP. Experts take several slices and chunks each, or many
// of them one chunk, whose planes end anywhere.
ConfigParts stacks_config(MatrixFormat weights, uint32_t expert_ff) {
  ConfigParts c =
      test::small_config(format::Mixer::kLatentAttention, format::FeedForward::kExperts);
  format::LayerKind& kind = c.kinds[0];
  kind.flags |= format::flag::kGated | format::flag::kNormalizedChoice;
  kind.n_query_heads = 5;
  kind.query_rank = 37;
  kind.latent_rank = 131;
  kind.key_dim = 22;
  kind.shared_key_dim = 6;
  kind.value_dim = 18;
  kind.d_ff = 45;
  kind.expert_ff = expert_ff;
  kind.n_experts = 9;
  kind.n_chosen = 3;
  c.model.d_model = 150;
  c.model.vocab_size = 103;
  test::set_all_formats(&c, weights);
  return c;
}

TEST_F(BackendTest, StacksOfHeadsAndExpertsMatchTheReferenceWithoutTheHeap) {
  for (const MatrixFormat stored : {MatrixFormat{NumberFormat::kInt8, 0},
                                    {NumberFormat::kInt4, 32},
                                    {NumberFormat::kInt4, 64},
                                    {NumberFormat::kInt4, 128},
                                    {NumberFormat::kF32, 0}}) {
    for (const auto& [expert_ff, n_threads] : {std::pair{26u, 2u}, {401u, 3u}}) {
      SCOPED_TRACE(testing::Message() << number_format_name(stored.number_format) << " "
                                      << stored.group_size << ", experts of " << expert_ff);
      n_stacks = 0;
      check_model(stacks_config(stored, expert_ff), n_threads);
      if (HasFatalFailure()) return;
      EXPECT_EQ(n_stacks, 5u * 4u);
    }
  }
}

TEST_F(BackendTest, ThreadsDoNotChangeABitOfStacks) {
  std::vector<float> first;
  for (const uint32_t n_threads : {1u, 2u, 3u}) {
    open(stacks_config({NumberFormat::kInt4, 32}, 401), n_threads);
    ASSERT_EQ(load(), Status::kOk);
    ASSERT_EQ(start(), Status::kOk);
    const Tensor& up = matrix(0, TensorRole::kExpertUp);
    random.seed(kSeed);
    const auto segments = segments_of(up, *weights.layers.front().kind, 7, true);
    ASSERT_GT(segments.size(), 1u);
    std::vector<float> x(rows_of(segments) * up.shape.cols + kSlack);
    for (float& value : x) value = static_cast<float>(random() % 2001) - 1000.0f;
    std::vector<float> y(rows_of(segments) * up.shape.rows);
    const LinearCall call = {&up, y.data()};
    ASSERT_EQ(linear(operators.get(), x.data(), segments, {&call, 1}), Status::kOk);
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0);
  }
}

// A slice is then less than a tile.
TEST_F(BackendTest, MatricesMayHaveFewerRowsThanATile) {
  for (const NumberFormat number_format :
       {NumberFormat::kInt4, NumberFormat::kInt8, NumberFormat::kF32}) {
    const bool is_int4 = number_format == NumberFormat::kInt4;
    ConfigParts c = odd_config(number_format, static_cast<uint16_t>(is_int4 ? 32 : 0));
    set_heads(2, 1, 4, &c);
    c.kinds[0].d_ff = 3;
    c.model.vocab_size = 15;
    for (const uint32_t n_threads : {1u, 3u}) check_model(c, n_threads);
  }
}

TEST_F(BackendTest, ThreadsDoNotChangeABit) {
  std::vector<float> first;
  for (const uint32_t n_threads : {1u, 2u, 3u}) {
    open(odd_config(NumberFormat::kInt4, 32), n_threads);
    ASSERT_EQ(load(), Status::kOk);
    ASSERT_EQ(start(), Status::kOk);
    const Tensor& gate = matrix(0, TensorRole::kGate);
    std::mt19937 same_every_time(kSeed);
    std::vector<float> x(7 * gate.shape.cols + kSlack);
    for (float& value : x) value = normal(same_every_time);
    std::vector<float> y(7 * gate.shape.rows);
    const LinearCall call = {&gate, y.data()};
    ASSERT_EQ(linear(x.data(), 7, {&call, 1}), Status::kOk);
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0);
  }
}

TEST_F(BackendTest, RowsThatAreZeroOrNotFiniteGiveZeros) {
  open(odd_config(NumberFormat::kInt8, 0), 1);
  ASSERT_EQ(load(), Status::kOk);
  ASSERT_EQ(start(), Status::kOk);
  const Tensor& q = matrix(0, TensorRole::kQ);
  std::vector<float> x(2 * q.shape.cols + kSlack, 0.0f);
  x[q.shape.cols] = INFINITY;
  std::vector<float> y(2 * q.shape.rows, kCanary);
  const LinearCall call = {&q, y.data()};
  ASSERT_EQ(linear(x.data(), 2, {&call, 1}), Status::kOk);
  for (const float value : y) ASSERT_EQ(value, 0.0f);
}

TEST_F(BackendTest, ADamagedChunkIsFoundWhateverThreadReadsIt) {
  ConfigParts c = odd_config(NumberFormat::kInt4, 32);
  open(c, 3);
  size_t n_damaged = 0;
  const auto* entries = reinterpret_cast<const format::ChunkEntry*>(image.bytes.data());
  uint32_t chunk = 0;
  for (uint32_t i = 0; i < tensor_count(c.view()); ++i) {
    const TensorSpec spec = test::spec_at(c.view(), i);
    const uint32_t n_chunks = tensor_chunk_count(spec);
    const bool is_packed = spec.is_matrix() && spec.role != format::TensorRole::kEmbedding;
    for (uint32_t end = chunk + n_chunks; chunk < end; ++chunk) {
      uint8_t& byte = image.bytes[entries[chunk].offset + entries[chunk].raw_bytes / 2];
      byte ^= 0x10;
      EXPECT_EQ(load(), is_packed ? Status::kCorrupt : Status::kOk);
      byte ^= 0x10;
      if (is_packed) ++n_damaged;
    }
  }
  EXPECT_GT(n_damaged, 0u);
}

// The plan was made by trial; what was planned otherwise is no plan of this model.
TEST_F(BackendTest, MemoryOfAnotherSizeThanItNeedsIsAnError) {
  open(odd_config(NumberFormat::kInt4, 32), 1);
  EXPECT_EQ(load(needs.model_bytes - format::kAlignment), Status::kBackendFailed);
  EXPECT_EQ(load(needs.model_bytes + format::kAlignment), Status::kBackendFailed);
  ASSERT_EQ(load(), Status::kOk);
  for (uint64_t n = 0; n < needs.workspace_bytes; n += 16 * format::kAlignment) {
    ASSERT_EQ(start(operators.get(), n), Status::kBackendFailed) << n;
  }
  EXPECT_EQ(start(operators.get(), needs.workspace_bytes - format::kAlignment),
            Status::kBackendFailed);
  EXPECT_EQ(start(), Status::kOk);
}

// Operators remember for how many rows they are shaped: those of one workspace know nothing of the
// other's.
TEST_F(BackendTest, WorkspacesOfOneModelTakeTurns) {
  open(odd_config(NumberFormat::kInt4, 32), 2);
  ASSERT_EQ(load(), Status::kOk);
  ASSERT_EQ(start(), Status::kOk);
  Block other(needs.workspace_bytes);
  ASSERT_EQ(start(&other, needs.workspace_bytes), Status::kOk);
  const Tensor& up = matrix(1, TensorRole::kUp);
  std::vector<float> x(kPrefillChunk * up.shape.cols + kSlack);
  for (float& value : x) value = normal(random);
  std::vector<float> y(kPrefillChunk * up.shape.rows);
  const LinearCall call = {&up, y.data()};
  const auto product = [&](Block* memory, size_t n_rows) {
    std::fill(y.begin(), y.end(), kCanary);
    EXPECT_EQ(linear(memory, x.data(), n_rows, {&call, 1}), Status::kOk);
    return y;
  };
  const std::vector<float> of_one = product(operators.get(), 1);
  const std::vector<float> of_seven = product(operators.get(), 7);
  for (const size_t n_rows : {size_t{7}, size_t{1}, size_t{7}}) {
    const std::vector<float>& want = n_rows == 1 ? of_one : of_seven;
    for (Block* memory : {&other, operators.get()}) {
      EXPECT_EQ(std::memcmp(product(memory, n_rows).data(), want.data(), y.size() * sizeof(float)),
                0);
      EXPECT_EQ(
          linear(memory == &other ? operators.get() : &other, x.data(), 8 - n_rows, {&call, 1}),
          Status::kOk);
    }
  }
}

TEST(XnnpackNeeds, AreQuickAndTheSameEveryTimeForABillionParameters) {
  ConfigParts parts = test::small_config(NumberFormat::kInt4, 32);
  parts.layers.assign(16, 0);
  test::mend_counts(&parts);
  parts.model.d_model = 2048;
  set_heads(32, 8, 64, &parts);
  parts.kinds[0].d_ff = 8192;
  parts.model.vocab_size = 128256;
  const Config c = parts.view();
  BackendNeeds first = {};
  ASSERT_EQ(kXnnpackBackend.needs(c, 2, kPrefillChunk, &first), Status::kOk);
  BackendNeeds second = {};
  // Half a millisecond at rest; packing a billion weights would take seconds.
  constexpr double kMostSeconds = 0.25;
  g_allocations = 0;
  g_trap_armed = 1;
  Status status = Status::kOk;
  const double seconds = test::thread_seconds_of(
      [&] { status = kXnnpackBackend.needs(c, 2, kPrefillChunk, &second); });
  g_trap_armed = 0;
  ASSERT_EQ(status, Status::kOk);
  EXPECT_EQ(g_allocations, 0u);
  EXPECT_EQ(first.model_bytes, second.model_bytes);
  EXPECT_EQ(first.workspace_bytes, second.workspace_bytes);
  EXPECT_EQ(first.step_bytes, second.step_bytes);
  EXPECT_EQ(first.load_bytes, second.load_bytes);
  EXPECT_FALSE(first.keeps_tile16);
  const double n_weights = 16.0 * 60817408 + 2048.0 * 128256;
  std::printf(
      "needs took %.2f ms; %.1f MB packed, %.3f bits a weight; %.2f MB of operators, %.2f MB to "
      "load\n",
      seconds * 1e3, double(first.model_bytes) / 1e6, 8.0 * double(first.model_bytes) / n_weights,
      double(first.workspace_bytes) / 1e6, double(first.load_bytes) / 1e6);
  EXPECT_LT(seconds, kMostSeconds);
  // int4 with a bf16 scale for 32 weights is 4.5 bits; sums are the rest, and operators.
  EXPECT_LT(8.0 * double(first.model_bytes + first.workspace_bytes) / n_weights, 4.6);
}

TEST(XnnpackNeeds, RefuseScalesOfEitherSign) {
  ConfigParts c = test::small_config(NumberFormat::kInt4, 32);
  BackendNeeds needs = {};
  EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kOk);
  c.model.flags |= format::kSignedScales;
  EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kUnsupported);
}

TEST(XnnpackNeeds, RefuseUnevenCodes) {
  BackendNeeds needs = {};
  ConfigParts c = test::small_config(NumberFormat::kInt4Nl, 64);
  EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kUnsupported);
}

TEST(XnnpackNeeds, RefuseInt8WithScalesOfGroups) {
  BackendNeeds needs = {};
  ConfigParts c = test::small_config(NumberFormat::kInt8G32, 32);
  EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kUnsupported);
}

TEST(XnnpackNeeds, RefuseTrainedBits) {
  BackendNeeds needs = {};
  for (const MatrixFormat f : {MatrixFormat{NumberFormat::kBit1, 128}, {NumberFormat::kBit2, 64}}) {
    ConfigParts c = test::small_config(f.number_format, f.group_size);
    EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kUnsupported);
  }
}

TEST(XnnpackNeeds, RefuseIntegerSumsThatCouldOverflow) {
  ConfigParts c = test::small_config(NumberFormat::kInt8, 0);
  c.kinds[0].d_ff = 65536;
  BackendNeeds needs = {};
  EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kOk);
  c.kinds[0].d_ff = 65537;
  EXPECT_EQ(kXnnpackBackend.needs(c.view(), 1, kPrefillChunk, &needs), Status::kUnsupported);
}

TEST(XnnpackHeapTrap, SeesAllocations) {
  ASSERT_GT(kHooked, 0);
  g_allocations = 0;
  g_trap_armed = 1;
  std::vector<int>* v = new std::vector<int>(100);
  void* block = std::malloc(100);
  g_trap_armed = 0;
  EXPECT_GE(g_allocations, 3u) << block;
  std::free(block);
  delete v;
}

}  // namespace
}  // namespace cria
