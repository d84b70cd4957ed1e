#include "converter/chat_template/marked_samples.h"

#include <array>
#include <random>

namespace cria::converter {
namespace {

std::string padded(const std::string& mark) {
  return std::string(kBeforeMark) + mark + std::string(kBehindMark);
}

std::string call_name(size_t call) { return "Cq" + std::to_string(call) + "xz"; }

// Nine letters and digits, which is what the strictest templates want.
std::string call_id(size_t call) { return "idq0" + std::to_string(call % 10) + "xz1a"; }

DialogueCall marked_call(size_t call) {
  return {call_name(call),
          call % 2 == 0 ? R"({"kq0x": "vq0x"})" : R"({"kq0x": "vq0x", "kq1x": [1, "b"]})",
          call_id(call)};
}

// In each order of roles up to this many messages.
constexpr size_t kAllOrders = 5;

// Conversations of every kind, the same ones every time.
class RandomOrders {
 public:
  std::string next() {
    std::string order = choose(2) == 0 ? "S" : "";
    const size_t n_turns = 1 + choose(3);
    for (size_t i = 0; i < n_turns; ++i) add_turn(i + 1 == n_turns, &order);
    if (choose(16) == 0) order.insert(choose(order.size() + 1), 1, "SUAHR"[choose(5)]);
    return order;
  }
  uint32_t choose(size_t n) { return static_cast<uint32_t>(random_() % n); }

 private:
  void add_turn(bool is_last, std::string* order) {
    *order += 'U';
    const size_t n_rounds = choose(3);
    for (size_t i = 0; i < n_rounds; ++i) {
      const char calls = "cCthxy"[choose(6)];
      *order += calls;
      if (is_last && choose(6) == 0) return;
      *order += calls == 'C' || calls == 'y' ? "RR" : "R";
    }
    if (is_last && choose(2) == 0) return;
    *order += choose(3) == 0 ? 'H' : 'A';
  }

  std::mt19937_64 random_{5};
};

void add_both(const Dialogue& dialogue, std::vector<Dialogue>* samples) {
  for (const bool opens_turn : {false, true}) {
    samples->push_back(dialogue);
    samples->back().opens_turn = opens_turn;
  }
}

}  // namespace

std::string mark_of(char letter, size_t message) {
  return std::string(1, letter) + "q" + std::to_string(message) + "xz";
}

Dialogue marked_dialogue(std::string_view letters) {
  Dialogue dialogue;
  size_t n_calls = 0;
  size_t n_results = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    const char letter = letters[i];
    DialogueMessage message = {ChatRole::kAssistant, {}, {}, {}, {}, {}};
    const bool is_text = std::string_view("AHtxy").find(letter) != std::string_view::npos;
    if (is_text) message.content = padded(mark_of('A', i));
    if (std::string_view("Hhx").find(letter) != std::string_view::npos) {
      message.thinking = padded(mark_of('H', i));
    }
    if (std::string_view("cCthxy").find(letter) != std::string_view::npos) {
      const size_t n = letter == 'C' || letter == 'y' ? 2 : 1;
      for (size_t k = 0; k < n; ++k) message.calls.push_back(marked_call(n_calls++));
    }
    if (letter == 'S' || letter == 'U' || letter == 'B') {
      message.role = letter == 'S' ? ChatRole::kSystem : ChatRole::kUser;
      if (letter != 'B') message.content = padded(mark_of(letter, i));
    } else if (letter == 'R') {
      message.role = ChatRole::kTool;
      message.content = padded(mark_of('R', i));
      message.name = call_name(n_results);
      message.id = call_id(n_results++);
    }
    dialogue.messages.push_back(std::move(message));
  }
  return dialogue;
}

std::string marked_tool(size_t number) {
  const std::string n = std::to_string(number);
  return R"({"type": "function", "function": {"name": "Nq)" + n + R"(xz", "description": "Dq)" + n +
         "xz \\\"q\\\" \xC3\xA9 <b> & \\n'x'" +
         R"(", "parameters": {"type": "object", "properties": )" +
         R"({"pq0x": {"type": "string", "description": "a \"b\" )" + "\xC3\xA9" +
         R"( <c>"}, "pq1x": {"type": "array", "items": {"type": "integer"}, "default": [true, null]}},)" +
         R"( "required": ["pq0x"]}}})";
}

std::vector<Dialogue> text_samples(bool switches_thinking) {
  std::vector<Dialogue> samples;
  std::vector<std::string> orders = {""};
  for (size_t i = 0; i < orders.size() && orders[i].size() < kAllOrders; ++i) {
    for (const char letter : {'S', 'U', 'A'}) orders.push_back(orders[i] + letter);
  }
  orders.erase(orders.begin());
  for (const char* more :
       {"SUAU", "UAUA", "SUAUA", "UAUAU", "SUAUAUA", "UAUAUAU", "UUAAU", "UAUSUA", "SUASU", "SUSAU",
        "UAAS", "UAAA", "SUAAS", "UASA", "SUUA", "SAUA", "UAAU", "UAAUA", "AUAU",
        // After those that tell what stands around a question.
        "B", "SB", "BA", "SBA", "UAB", "SUAB", "BAU", "SBAU", "SBAUA", "UABA", "SUABA"}) {
    orders.emplace_back(more);
  }
  for (const std::string& order : orders) {
    Dialogue dialogue = marked_dialogue(order);
    add_both(dialogue, &samples);
    if (!switches_thinking) continue;
    for (const ChatThinking thinking : {ChatThinking::kOn, ChatThinking::kOff}) {
      dialogue.thinking = thinking;
      add_both(dialogue, &samples);
    }
  }
  return samples;
}

std::vector<Dialogue> tool_samples(bool switches_thinking) {
  std::vector<std::string> orders;
  const auto add = [&](const std::string& order) { orders.push_back(order); };
  for (const char* thought : {"UH", "SUH", "UHU", "SUHU", "UHUA", "UAUH", "UHUH", "UHUHU", "UHUAU",
                              "UAUHU", "UHA", "UAH", "UHHU", "SUHUHU", "HU"}) {
    add(thought);
  }
  constexpr std::array<std::string_view, 6> kRounds = {"cR", "CRR", "tR", "hR", "xR", "yRR"};
  for (const std::string_view round : kRounds) {
    const std::string r(round);
    for (const std::string before : {"U", "SU", "SUAU", "UcRAU", "UxRHU"}) {
      const bool is_short = before.size() < 3;
      add(before + r[0]);
      add(before + r);
      add(before + r + "A");
      add(before + r + "H");
      add(before + r + "AU");
      if (is_short) {
        add(before + r + "HU");
        add(before + r + "U");
        add(before + r + "AUA");
        add(before + r + "HUH");
      }
      if (before != "U") continue;
      for (const std::string next : {"cR", "CRR", "hR", "xR"}) {
        add(before + r + next);
        add(before + r + next[0]);
        add(before + r + next + "H");
        add(before + r + next + "AU");
      }
    }
  }
  for (const char* other :
       {"U",  "SU", "UA",   "UAU",  "SUAU", "SUA",  "S",   "UCR", "SUCR", "UcRS",  "UcRSU", "UASU",
        "UR", "UU", "UUcR", "SUSU", "AcR",  "UAcR", "USU", "UAR", "SUAR", "UAUAR", "UHR"}) {
    add(other);
  }
  std::vector<Dialogue> samples;
  const std::vector<std::string> one = {marked_tool(0)};
  const std::vector<std::string> two = {marked_tool(0), marked_tool(1)};
  size_t n = 0;
  for (const std::string& order : orders) {
    Dialogue dialogue = marked_dialogue(order);
    const bool is_short = order.size() <= 3;
    const bool has_calls = order.find_first_of("cCthxyR") != std::string::npos;
    dialogue.tools = ++n % 3 == 0 ? two : one;
    add_both(dialogue, &samples);
    if (is_short || !has_calls || n % 4 == 0) {
      dialogue.tools.clear();
      if (has_calls || order.find('H') != std::string::npos) add_both(dialogue, &samples);
      dialogue.tools = one;
    }
    if (!switches_thinking || (!is_short && n % 5 != 0)) continue;
    for (const ChatThinking thinking : {ChatThinking::kOn, ChatThinking::kOff}) {
      dialogue.thinking = thinking;
      add_both(dialogue, &samples);
      if (!has_calls) {
        Dialogue without = dialogue;
        without.tools.clear();
        add_both(without, &samples);
      }
    }
  }
  constexpr size_t kRandom = 400;
  RandomOrders random;
  for (size_t i = 0; i < kRandom; ++i) {
    Dialogue dialogue = marked_dialogue(random.next());
    if (random.choose(6) != 0) dialogue.tools = random.choose(3) == 0 ? two : one;
    if (switches_thinking) dialogue.thinking = static_cast<ChatThinking>(random.choose(3));
    dialogue.opens_turn = random.choose(2) == 0;
    samples.push_back(std::move(dialogue));
  }
  return samples;
}

}  // namespace cria::converter
