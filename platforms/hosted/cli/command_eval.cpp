// cria eval: perplexity of a text, and how far a model is from a reference. The protocol is in
// docs/command_line.md.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/progress_line.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/eval/distribution.h"
#include "platforms/hosted/eval/eval_windows.h"
#include "platforms/hosted/eval/logits_by_token.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {
namespace {

struct Totals {
  size_t n_scored = 0;
  double nll = 0.0;
  double reference_nll = 0.0;
  double kl = 0.0;
  size_t n_same_top = 0;
  std::vector<float> kl_by_token;
};

// A measure of logits that are infinite or no numbers is none, and could not be sorted.
double checked(double value, const ModelSession& model) {
  if (std::isfinite(value)) return value;
  throw ProgramError(ExitCode::kInvalidInput,
                     model.path() +
                         ": its logits are not all finite numbers, so that nothing can "
                         "be measured; convert the model again");
}

void score(std::span<const float> logits, uint32_t next, const ModelSession& model,
           Totals* totals) {
  totals->nll -= checked(log_probability(logits, next), model);
  ++totals->n_scored;
}

void compare(std::span<const float> logits, std::span<const float> reference, uint32_t next,
             const ModelSession& model, const ModelSession& reference_model, Totals* totals) {
  totals->reference_nll -= checked(log_probability(reference, next), reference_model);
  const double kl = checked(kl_divergence(reference, logits), model);
  totals->kl += kl;
  totals->kl_by_token.push_back(static_cast<float>(kl));
  if (likeliest(reference) == likeliest(logits)) ++totals->n_same_top;
}

// One window on both models. The reference's logits come a chunk at a time too, so they are kept
// for the whole window.
void run_window(const EvalWindow& window, const ModelSession& model, LogitsByToken* by_token,
                const ModelSession* reference, LogitsByToken* reference_by_token,
                std::vector<float>* kept, Totals* totals) {
  const size_t vocab_size = model.info().vocab_size;
  const std::span<const uint32_t> inputs(window.tokens.data(), window.tokens.size() - 1);
  if (reference != nullptr) {
    check_memory_for(uint64_t{inputs.size()} * vocab_size * sizeof(float),
                     "the reference's logits");
    kept->resize(inputs.size() * vocab_size);
    reference->check(cria_reset(reference->session(), 0));
    reference_by_token->run(inputs, [&](size_t index, std::span<const float> logits) {
      std::copy(logits.begin(), logits.end(),
                kept->begin() + static_cast<std::ptrdiff_t>(index * vocab_size));
      return true;
    });
  }
  model.check(cria_reset(model.session(), 0));
  by_token->run(inputs, [&](size_t index, std::span<const float> logits) {
    const uint32_t next = window.tokens[index + 1];
    score(logits, next, model, totals);
    if (reference != nullptr) {
      compare(logits, std::span<const float>(*kept).subspan(index * vocab_size, vocab_size), next,
              model, *reference, totals);
    }
    return true;
  });
}

nlohmann::ordered_json json_of(const EvalOptions& options, const EvalText& text, Totals* totals) {
  const double count = static_cast<double>(totals->n_scored);
  nlohmann::ordered_json json = {
      {"model", options.common.model_path},  {"text", options.text_path},
      {"documents", text.n_documents},       {"windows", text.windows.size()},
      {"window_tokens", text.window_tokens}, {"tokens", totals->n_scored},
      {"mean_nll", totals->nll / count},     {"perplexity", std::exp(totals->nll / count)}};
  if (options.reference_path.empty()) return json;
  constexpr double kShare = 0.99;
  std::vector<float>& sorted = totals->kl_by_token;
  std::sort(sorted.begin(), sorted.end());
  json["reference"] = {
      {"model", options.reference_path},
      {"perplexity", std::exp(totals->reference_nll / count)},
      {"perplexity_ratio", std::exp((totals->nll - totals->reference_nll) / count)},
      {"mean_kl", totals->kl / count},
      {"p99_kl", sorted[static_cast<size_t>(kShare * (count - 1.0))]},
      {"top1_agreement", static_cast<double>(totals->n_same_top) / count}};
  return json;
}

void print_table(const nlohmann::ordered_json& json, TextStream* out) {
  out->put(text_of("tokens scored     %zu in %zu windows\n", json["tokens"].get<size_t>(),
                   json["windows"].get<size_t>()));
  out->put(text_of("perplexity        %.4f\n", json["perplexity"].get<double>()));
  if (!json.contains("reference")) return;
  const nlohmann::ordered_json& reference = json["reference"];
  out->put(text_of("of the reference  %.4f (x %.4f)\n", reference["perplexity"].get<double>(),
                   reference["perplexity_ratio"].get<double>()));
  out->put(text_of("KL divergence     %.6f, 99 %%: %.6f\n", reference["mean_kl"].get<double>(),
                   reference["p99_kl"].get<double>()));
  constexpr double kPercent = 100.0;
  out->put(
      text_of("same top token    %.2f %%\n", kPercent * reference["top1_agreement"].get<double>()));
}

std::unique_ptr<ModelSession> open_reference(const EvalOptions& options,
                                             const ModelSession& model) {
  if (options.reference_path.empty()) return nullptr;
  CommonOptions common = options.common;
  common.model_path = options.reference_path;
  common.context = cria_context(model.session());
  auto reference = std::make_unique<ModelSession>(common, SessionNeeds());
  if (reference->info().vocab_size != model.info().vocab_size) {
    throw ProgramError(ExitCode::kInvalidInput,
                       options.reference_path + ": its vocabulary has another size than " +
                           options.common.model_path + "'s; give the same model's f32 file");
  }
  return reference;
}

}  // namespace

ExitCode run_command(const EvalOptions& options) {
  const std::string text = read_text_file(options.text_path);
  const ModelSession model(options.common, {.max_text_bytes = text.size()});
  model.need_tokenizer();
  const std::unique_ptr<ModelSession> reference = open_reference(options, model);
  const EvalText windows = cut_eval_windows(model, text);

  LogitsByToken by_token(model);
  std::unique_ptr<LogitsByToken> reference_by_token;
  if (reference) reference_by_token = std::make_unique<LogitsByToken>(*reference);
  std::vector<float> kept;
  Totals totals;
  {
    ProgressLine progress("evaluating");
    for (size_t i = 0; i < windows.windows.size(); ++i) {
      run_window(windows.windows[i], model, &by_token, reference.get(), reference_by_token.get(),
                 &kept, &totals);
      progress.update(i + 1, windows.windows.size(), "");
    }
  }
  if (totals.n_scored == 0) {
    throw ProgramError(ExitCode::kInvalidInput, options.text_path + ": no tokens to score");
  }
  TextStream out(STDOUT_FILENO);
  const nlohmann::ordered_json json = json_of(options, windows, &totals);
  constexpr int kIndent = 2;
  if (options.json) {
    out.put(json.dump(kIndent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
            "\n");
  } else {
    print_table(json, &out);
  }
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
