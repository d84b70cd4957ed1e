// States of prefixes in a folder: found again, bounded, and what others put there harms nothing.
#include "platforms/hosted/prefixes/prefix_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "platforms/hosted/base/program_error.h"
#include "tests/support/engine_trial.h"
#include "tests/support/folders.h"
#include "tests/support/seeds.h"

namespace cria::hosted {
namespace {

namespace fs = std::filesystem;
using Tokens = std::vector<uint32_t>;

constexpr uint64_t kPlenty = 1000000000;

Tokens some_tokens(size_t n, uint32_t salt) {
  Tokens tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<uint32_t>((i * 7 + salt) % 2000);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixStoreTest : public testing::Test {
 protected:
  PrefixStoreTest() : model_(test::options_of(test::demo_path(), {}), {}) {
    fs::remove_all(folder_);
  }
  ~PrefixStoreTest() override { fs::remove_all(folder_); }

  PrefixStore store(uint64_t most_bytes = kPlenty) {
    return {model_, folder_.string(), most_bytes,
            [this](const std::string& line) { told_.push_back(line); }};
  }
  // Reads tokens and gives the state after them.
  std::vector<uint8_t> state_of(const Tokens& tokens) {
    model_.check(cria_reset(model_.session(), 0));
    model_.check(cria_prefill(model_.workspace(), model_.session(), tokens.data(), tokens.size()));
    std::vector<uint8_t> state(cria_state_size(model_.session()));
    model_.check(cria_state_save(model_.session(), state.data(), state.size()));
    return state;
  }
  bool put(PrefixStore* store, const Tokens& tokens) {
    return store->put(tokens, state_of(tokens), [] { return true; });
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  fs::path only_file() const {
    EXPECT_EQ(files().size(), 1U);
    return files().at(0);
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // Whether the store has the whole state of a prefix of the prompt, and loading it succeeds.
  cria_status loaded(PrefixStore* store, const Tokens& prompt) {
    const PrefixStore::Match match = store->find(prompt);
    if (match.prefix == nullptr) return CRIA_BAD_STATE;
    const std::optional<StateBytes> state = store->read(*match.prefix);
    if (!state) return CRIA_BAD_STATE;
    return load_prefix(model_.session(), match.prefix->tokens, state->all());
  }

  const fs::path folder_ = test::temporary_folder() / "prefixes";
  ModelSession model_;
  std::vector<std::string> told_;
};

TEST_F(PrefixStoreTest, WhatIsPutIsFoundAndIsWhatWasPut) {
  const Tokens lead = some_tokens(100, 1);
  const Tokens prompt = joined(lead, some_tokens(20, 5));
  const std::vector<uint8_t> state = state_of(lead);
  PrefixStore first = store();
  EXPECT_EQ(first.find(prompt).prefix, nullptr);
  ASSERT_TRUE(put(&first, lead));
  PrefixStore again = store();
  for (PrefixStore* const each : {&first, &again}) {
    const PrefixStore::Match match = each->find(prompt);
    ASSERT_NE(match.prefix, nullptr);
    EXPECT_EQ(match.n_usable, 100U);
    EXPECT_EQ(match.prefix->tokens, lead);
    const std::optional<StateBytes> read = each->read(*match.prefix);
    ASSERT_TRUE(read);
    EXPECT_TRUE(std::equal(state.begin(), state.end(), read->all().begin(), read->all().end()));
    EXPECT_EQ(each->counts().n_prefixes, 1U);
    EXPECT_EQ(each->counts().n_bytes, fs::file_size(only_file()));
  }
  // A prompt's last token is read in any case; what only begins alike serves in part.
  EXPECT_EQ(again.find(lead).n_usable, 99U);
  Tokens other = prompt;
  other[70] = 1999;
  EXPECT_EQ(again.find(other).n_usable, 70U);
  other[0] = 1999;
  EXPECT_EQ(again.find(other).prefix, nullptr);
  EXPECT_TRUE(told_.empty());
}

TEST_F(PrefixStoreTest, TheLongestIsFoundAndOfEqualOnesTheShorter) {
  const Tokens lead = some_tokens(80, 1);
  PrefixStore all = store();
  for (const size_t n : {40U, 80U, 60U})
    ASSERT_TRUE(put(&all, Tokens(lead.begin(), lead.begin() + n)));
  EXPECT_EQ(all.find(joined(lead, {1})).prefix->tokens.size(), 80U);
  Tokens other = lead;
  other[50] = 1999;
  EXPECT_EQ(all.find(other).prefix->tokens.size(), 60U);
  EXPECT_EQ(all.find(other).n_usable, 50U);
}

TEST_F(PrefixStoreTest, TheBytesAreBoundedAndTheLeastRecentlyUsedGo) {
  const std::vector<uint8_t> state = state_of(some_tokens(64, 1));
  const uint64_t n_bytes = PrefixHead{"", state.size(), 64}.file_bytes();
  PrefixStore all = store(3 * n_bytes);
  const auto is_there = [&](uint32_t salt) {
    return all.find(joined(some_tokens(64, salt), {3})).n_usable == 64;
  };
  for (uint32_t salt = 0; salt < 3; ++salt) {
    ASSERT_TRUE(put(&all, some_tokens(64, salt)));
    // Clocks of file systems are coarse.
    for (const fs::path& path : files()) {
      fs::last_write_time(path, fs::last_write_time(path) - std::chrono::minutes(1));
    }
  }
  EXPECT_EQ(loaded(&all, joined(some_tokens(64, 0), {3})), CRIA_OK);  // used again
  ASSERT_TRUE(put(&all, some_tokens(64, 3)));
  EXPECT_TRUE(is_there(0));
  EXPECT_FALSE(is_there(1));
  EXPECT_TRUE(is_there(2));
  EXPECT_TRUE(is_there(3));
  EXPECT_EQ(files().size(), 3U);
  // One that has no room at all changes nothing.
  EXPECT_FALSE(put(&all, some_tokens(300, 4)));
  EXPECT_EQ(files().size(), 3U);
  // With less room, later: what can never stay goes first.
  PrefixStore smaller = store(n_bytes);
  ASSERT_TRUE(put(&smaller, some_tokens(64, 5)));
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(PrefixStoreTest, TwoProgramsShareAFolder) {
  PrefixStore one = store();
  PrefixStore two = store();
  const Tokens lead = some_tokens(64, 1);
  ASSERT_TRUE(put(&one, lead));
  ASSERT_TRUE(put(&two, lead));  // the same file
  (void)only_file();
  ASSERT_TRUE(put(&one, some_tokens(64, 2)));
  ASSERT_TRUE(put(&two, some_tokens(64, 3)));  // sees what came meanwhile
  EXPECT_EQ(two.counts().n_prefixes, 3U);
  for (const fs::path& path : files()) fs::remove(path);
  EXPECT_EQ(loaded(&one, joined(lead, {3})), CRIA_BAD_STATE);
  EXPECT_EQ(one.find(joined(lead, {3})).prefix, nullptr);
}

TEST_F(PrefixStoreTest, StatesOfOtherTermsAreNotUsedAndGoLikeTheRest) {
  PrefixStore ours = store();
  const Tokens lead = some_tokens(64, 1);
  ASSERT_TRUE(put(&ours, lead));
  const uint64_t n_bytes = fs::file_size(only_file());
  for (const cria_kv_format format : {CRIA_KV_K8V4, CRIA_KV_F32}) {
    const ModelSession other(test::options_of(test::demo_path(), {.kv_format = format}), {});
    PrefixStore theirs(other, folder_.string(), n_bytes, [](const std::string&) { FAIL(); });
    EXPECT_EQ(theirs.counts().n_prefixes, 0U);
    EXPECT_EQ(theirs.counts().n_bytes, n_bytes);
    EXPECT_EQ(theirs.find(joined(lead, {3})).prefix, nullptr);
  }
  const ModelSession other(test::options_of(test::demo_path(), {.kv_format = CRIA_KV_K8V4}), {});
  PrefixStore theirs(other, folder_.string(), n_bytes, [](const std::string&) { FAIL(); });
  cria_session* const s = other.session();
  other.check(cria_prefill(other.workspace(), s, lead.data(), lead.size()));
  std::vector<uint8_t> state(cria_state_size(s));
  other.check(cria_state_save(s, state.data(), state.size()));
  ASSERT_TRUE(theirs.put(lead, state, [] { return true; }));
  EXPECT_EQ(theirs.find(joined(lead, {3})).n_usable, 64U);
  EXPECT_EQ(store().counts().n_prefixes, 0U);
}

TEST_F(PrefixStoreTest, WhatOthersPutThereIsLeftAlone) {
  constexpr const char* kName = "prefix-%016x.state";
  fs::create_directory(folder_);
  const auto path = [&](int i) {
    char name[64];
    std::snprintf(name, sizeof name, kName, i);
    return folder_ / name;
  };
  write(folder_ / "letter.txt", "a letter");
  write(folder_ / "secret", std::string("criaprm3") + std::string(500, 'x'));
  write(path(1), "");
  write(path(2), "a letter");
  write(path(3), std::string(1000, 'x'));
  fs::create_symlink(folder_ / "secret", path(4));
  fs::create_symlink("/dev/zero", path(5));
  ASSERT_EQ(::mkfifo(path(6).c_str(), 0600), 0);
  fs::create_directory(path(7));
  write(path(8), "x");
  fs::resize_file(path(8), uint64_t{1} << 40);
  const size_t n_before = files().size();
  PrefixStore all = store(100000);
  EXPECT_EQ(told_.size(), 1U);
  EXPECT_NE(told_.at(0).find("and 9 more like it); not used"), std::string::npos) << told_[0];
  EXPECT_EQ(all.counts().n_prefixes, 0U);
  EXPECT_EQ(all.counts().n_bytes, 0U);
  ASSERT_TRUE(put(&all, some_tokens(64, 1)));
  EXPECT_EQ(files().size(), n_before + 1);
  EXPECT_EQ(told_.size(), 1U);
  EXPECT_EQ(bytes_of(folder_ / "letter.txt"), "a letter");
  // Nor is it written over where it has the name that a state is to have.
  for (const fs::path& file : files()) {
    if (file.extension() != ".state" || file.filename().string().starts_with("prefix-00000000"))
      continue;
    fs::remove(file);
    fs::create_symlink(folder_ / "letter.txt", file);
  }
  EXPECT_THROW(put(&all, some_tokens(64, 1)), ProgramError);
  EXPECT_EQ(bytes_of(folder_ / "letter.txt"), "a letter");
}

TEST_F(PrefixStoreTest, NoChangedFileIsTakenForWhatItWas) {
  const Tokens lead = some_tokens(64, 1);
  const Tokens prompt = joined(lead, {3});
  {
    PrefixStore first = store();
    ASSERT_TRUE(put(&first, lead));
  }
  const fs::path path = only_file();
  const std::string good = bytes_of(path);
  const std::vector<uint8_t> wanted = state_of(lead);
  size_t n_refused = 0;
  test::for_each_seed({1}, [&](uint32_t seed) {
    std::mt19937 random(seed);
    constexpr int kTrials = 600;
    for (int i = 0; i < kTrials; ++i) {
      std::string bad = good;
      const size_t kHot = kPrefixHeadBytes + 64 * sizeof(uint32_t) + 48;
      const size_t n_edits = 1 + random() % 3;
      for (size_t edit = 0; edit < n_edits; ++edit) {
        const size_t place = random() % (random() % 2 == 0 ? kHot : bad.size());
        bad[place] = static_cast<char>(bad[place] ^ (1 << random() % 8));
      }
      if (random() % 4 == 0) bad.resize(random() % (bad.size() + 1));
      if (random() % 8 == 0) bad += "more";
      write(path, bad);
      PrefixStore changed = store();
      model_.check(cria_reset(model_.session(), 0));
      if (loaded(&changed, prompt) != CRIA_OK) {
        ++n_refused;
        continue;
      }
      // The random numbers are the state's alone, and are begun anew.
      const size_t n_held = cria_position(model_.session());
      ASSERT_EQ(Tokens(cria_tokens(model_.session()), cria_tokens(model_.session()) + n_held),
                lead);
      cria_seed(model_.session(), 0);
      std::vector<uint8_t> state(cria_state_size(model_.session()));
      model_.check(cria_state_save(model_.session(), state.data(), state.size()));
      const size_t kRandomEnd = 32;
      ASSERT_TRUE(std::equal(state.begin() + kRandomEnd, state.end(), wanted.begin() + kRandomEnd,
                             wanted.end()));
    }
  });
  EXPECT_GT(n_refused, 500U);
}

TEST_F(PrefixStoreTest, AFolderIsMadeForItsOwnerOrRefused) {
  (void)store();
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  fs::permissions(folder_, fs::perms::all);
  EXPECT_THROW(store(), ProgramError);
  fs::remove(folder_);
  write(folder_, "a file");
  EXPECT_THROW(store(), ProgramError);
  fs::remove(folder_);
  EXPECT_THROW(PrefixStore(model_, (folder_ / "below").string(), kPlenty, nullptr), ProgramError);
}

TEST_F(PrefixStoreTest, WhatAKilledProgramLeftIsRemovedLater) {
  fs::create_directory(folder_);
  const fs::path old = folder_ / "cria-0123456789abcdef.tmp";
  const fs::path fresh = folder_ / "cria-fedcba9876543210.tmp";
  for (const fs::path& path : {old, fresh}) write(path, "half a state");
  fs::last_write_time(old, fs::last_write_time(old) - std::chrono::hours(2));
  (void)store();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(told_.empty());
}

TEST_F(PrefixStoreTest, WhatIsStoppedLeavesNothing) {
  PrefixStore all = store();
  const Tokens lead = some_tokens(64, 1);
  EXPECT_FALSE(all.put(lead, state_of(lead), [] { return false; }));
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace cria::hosted
