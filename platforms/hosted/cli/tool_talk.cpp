#include "platforms/hosted/cli/tool_talk.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/chat/conversation_json.h"
#include "platforms/hosted/cli/message_file.h"
#include "platforms/hosted/cli/reading_progress.h"
#include "platforms/hosted/cli/token_sinks.h"
#include "platforms/hosted/serve/json_text.h"
#include "platforms/hosted/session/tool_rounds.h"

namespace cria::hosted {
namespace {

constexpr size_t kMaxGrammarBytes = size_t{64} << 20;
constexpr uint64_t kTextBytesOfPosition = 16;

[[noreturn]] void refuse(const std::string& what) {
  throw ProgramError(ExitCode::kInvalidInput, what);
}

// Holds the tokens of an answer to the form of calls.
class CallGuide final : public TokenGuide {
 public:
  CallGuide(const ModelSession& model, std::shared_ptr<CallGrammar> grammar)
      : model_(model), grammar_(std::move(grammar)) {
    model.check(grammar_->begin(&state_));
  }
  void mask() override {
    const std::span logits(cria_logits(model_.session()), cria_vocab_size(model_.model()));
    model_.check(grammar_->mask(state_, logits, nullptr, nullptr));
  }
  void accept(uint32_t token) override { model_.check(grammar_->accept(&state_, token)); }
  bool is_open() { return grammar_->progress(state_) == AnswerGuide::Progress::kOpen; }
  bool is_closed() override { return grammar_->progress(state_) == AnswerGuide::Progress::kClosed; }
  size_t forced(std::span<uint32_t> tokens) override {
    size_t n_tokens = 0;
    model_.check(grammar_->forced(state_, model_.workspace(), tokens, &n_tokens));
    return n_tokens;
  }

 private:
  const ModelSession& model_;
  const std::shared_ptr<CallGrammar> grammar_;
  AnswerGuide::State state_;
};

// Takes an answer apart, writes it and keeps it as a message.
class CallSink final : public TokenSink {
 public:
  CallSink(const ModelSession& model, const CallReading& reading, TextStream* out)
      : decoder_(model, Continues::kYes),
        markers_(*reading.writing->markers),
        reader_(reading),
        out_(out) {
    message_.role = CRIA_ASSISTANT;
  }

  Demand put(uint32_t token) override {
    const bool is_marker = std::binary_search(markers_.begin(), markers_.end(), token);
    take(reader_.read(decoder_.decode(token, is_marker)));
    return out_->closed() ? Demand::kEnough : Demand::kMore;
  }

  // is_in_call: the answer ended inside of one, which is no part of the message.
  ConversationMessage finish(bool is_cut, bool is_in_call) {
    // Half a character of an answer that is cut may be one of a marker.
    if (!is_cut) take(reader_.read(decoder_.finish()));
    if (is_in_call) {
      put_rest();
    } else {
      take(reader_.finish(is_cut));
    }
    out_->end_line();
    return std::move(message_);
  }

 private:
  // What came of a call that is cut: where its name was told, that and the arguments so far, else
  // its text.
  void put_rest() {
    out_->end_line();
    bool is_told = is_open_;
    if (is_open_) out_->put(call_.name + " " + call_.arguments);
    for (const AnswerPart& part : reader_.finish(false)) {
      is_told = is_told || part.kind == CRIA_CALLS_BEGIN;
      if (part.kind == CRIA_CALLS_BEGIN) out_->put(part.text + " ");
      const bool is_rest =
          part.kind == CRIA_CALLS_TEXT || (is_told && part.kind == CRIA_CALLS_ARGUMENTS);
      if (is_rest) out_->put(part.text);
    }
    out_->flush();
  }

  void take(const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      switch (part.kind) {
        case CRIA_CALLS_TEXT:
          message_.text += part.text;
          out_->put(part.text);
          break;
        case CRIA_CALLS_THINKING:
          message_.thinking += part.text;
          break;
        case CRIA_CALLS_BEGIN:
          call_ = {part.text, {}, part.id};
          is_open_ = true;
          break;
        case CRIA_CALLS_ARGUMENTS:
          call_.arguments += part.text;
          break;
        case CRIA_CALLS_END:
          out_->end_line();
          out_->put(
              JsonText::object({{"name", call_.name}, {"arguments", JsonText::of(call_.arguments)}})
                  .take() +
              "\n");
          message_.calls.push_back(std::move(call_));
          is_open_ = false;
          break;
        case CRIA_CALLS_BROKEN:
          is_open_ = false;
          break;
      }
    }
    out_->flush();
  }

  TokenDecoder decoder_;
  const std::vector<uint32_t>& markers_;
  CallReader reader_;
  TextStream* out_;
  ConversationCall call_;
  bool is_open_ = false;  // the call has begun and is not whole
  ConversationMessage message_;
};

}  // namespace

ToolTalk::ToolTalk(const ModelSession& model, Conversation conversation, ToolChoice choice)
    : model_(model),
      schemas_(model, kMaxGrammarBytes),
      writing_(std::make_shared<const CallWriting>(CallWriting::of(model.model()))),
      beginning_(std::move(conversation)),
      choice_(std::move(choice)),
      conversation_(beginning_) {
  if (!writing_->writes(CRIA_WRITES_CALLS)) {
    refuse(model.path() +
           ": does not say how the model writes calls of tools; convert a checkpoint whose "
           "chat template has tools, or give one with --chat-template");
  }
  const ToolRounds rounds = tool_rounds_of(model.info(), model.workspace());
  if (!rounds.are_taken) {
    refuse(model.path() + ": the model calls no tools: its chat template " + kTakesNoRounds);
  }
  takes_several_ = rounds.of_several;
}

uint64_t ToolTalk::text_bytes(const Conversation& conversation, uint32_t context) {
  return 2 * bytes_of(conversation) + kTextBytesOfPosition * context;
}

void ToolTalk::reset() {
  conversation_ = beginning_;
  n_open_ = 0;
}

void ToolTalk::say(const std::string& text) {
  ConversationMessage message;
  message.role = waits() ? CRIA_TOOL : CRIA_USER;
  message.text = text;
  conversation_.messages.push_back(std::move(message));
  if (!waits()) return;
  --n_open_;
  complete_calls(&conversation_);
}

void ToolTalk::read_prompt(const std::vector<uint32_t>& tokens) const {
  cria_session* const session = model_.session();
  const uint32_t context = cria_context(session);
  if (tokens.size() >= context) {
    refuse(text_of("the conversation has %zu tokens, the context %u; %s", tokens.size(), context,
                   model_.advice_on_length()));
  }
  const uint32_t* const held = cria_tokens(session);
  const size_t n_held = std::min<size_t>(cria_position(session), tokens.size() - 1);
  const auto n_kept =
      static_cast<uint32_t>(std::mismatch(held, held + n_held, tokens.begin()).first - held);
  if (cria_reset(session, n_kept) != CRIA_OK) {  // a sliding window has gone on
    model_.check(cria_reset(session, 0));
  }
  const std::span rest = std::span(tokens).subspan(cria_position(session));
  const ReadingProgress progress(model_, [&] { return rest.size(); });
  if (prefill(model_, rest).n_fed == 0) throw ProgramError(ExitCode::kInterrupted, "stopped");
}

Generation ToolTalk::answer(const cria_sampling& sampling, uint32_t max_tokens, TextStream* out) {
  CallReading reading;
  reading.writing = writing_;
  reading.tools = tools_json(conversation_);
  reading.takes_calls = choice_.choice != CRIA_TOOLS_NONE;
  const std::vector<uint32_t> tokens = encode_question(model_, &conversation_, &reading.opened);
  read_prompt(tokens);
  cria_call_order order = order_of(reading, choice_.name);
  order.choice = choice_.choice;
  order.one_call = takes_several_ ? 0 : 1;
  order.thinks = writing_->writes(CRIA_WRITES_THINKING) ? 1 : 0;
  std::string problem;
  const std::shared_ptr<CallGrammar> grammar = schemas_.compile(order, reading.opened, &problem);
  if (grammar == nullptr) refuse(choice_.where + ": " + problem);
  CallGuide guide(model_, grammar);
  CallSink sink(model_, reading, out);
  const Generation made = generate(
      model_, sampling, {.max_tokens = max_tokens, .ignore_end = false, .guide = &guide}, &sink);
  const bool is_cut = made.stop != Stop::kEndToken && made.stop != Stop::kDocument;
  is_cut_ = is_cut && guide.is_open();
  conversation_.messages.push_back(sink.finish(is_cut, is_cut_));
  n_open_ = conversation_.messages.back().calls.size();
  return made;
}

}  // namespace cria::hosted
