#include "platforms/hosted/cli/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <cria.h>
#include "platforms/hosted/base/option_values.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/help_text.h"
#include "platforms/hosted/cli/line_editor.h"
#include "platforms/hosted/cli/sampling_table.h"
#include "platforms/hosted/machine/cpu.h"

namespace cria::hosted {
namespace {

constexpr uint32_t kMaxContext = 1 << 24;
constexpr uint32_t kMaxPrefillChunk = 4096;
constexpr uint32_t kMaxRepetitions = 1000;
constexpr uint32_t kMaxSessions = 1024;

constexpr Named<cria_backend> kBackends[] = {
    {"auto", CRIA_BACKEND_AUTO}, {"exact", CRIA_BACKEND_EXACT}, {"xnnpack", CRIA_BACKEND_XNNPACK}};
constexpr Named<std::optional<cria_kv_format>> kKvFormats[] = {
    {"int8", CRIA_KV_INT8}, {"k8v4", CRIA_KV_K8V4}, {"f32", CRIA_KV_F32}};

constexpr Named<ThinkingChoice> kThinking[] = {
    {"on", {CRIA_THINKING_ON, Thinking::kDim}},
    {"off", {CRIA_THINKING_OFF, Thinking::kDim}},
    {"dim", {CRIA_THINKING_DEFAULT, Thinking::kDim}},
    {"hide", {CRIA_THINKING_DEFAULT, Thinking::kHide}},
    {"plain", {CRIA_THINKING_DEFAULT, Thinking::kPlain}}};

void add_model(CLI::App* app, std::string* path) {
  app->add_option("M.cria", *path, "The file")->required()->type_name("M.cria");
}

// --isa takes the names this build has kernels for and this CPU runs; a name allows everything up
// to itself.
void add_isa(CLI::App* app, CommonOptions* common) {
  std::map<std::string, uint32_t> masks;
  std::string names;
  uint32_t mask = 0;
  for (const IsaName& isa : isa_names(cria_built_isas() & cpu_isas())) {
    mask |= isa.bit;
    masks[isa.name] = mask;
    names += (names.empty() ? "" : ", ") + std::string(isa.name);
  }
  app->add_option_function<std::string>(
         "--isa", [common, masks](const std::string& name) { common->isa_mask = masks.at(name); },
         "Up to " + names)
      ->check(CLI::Validator(
          [masks, names](const std::string& name) {
            if (masks.count(name) != 0) return std::string();
            return value_words(name) + " is not available here; choose one of: " + names;
          },
          ""))
      ->type_name("NAME");
}

void add_common(CLI::App* app, CommonOptions* common) {
  add_model(app, &common->model_path);
  app->add_option("--threads", common->n_threads, "Threads; default: fast cores. Changes no token")
      ->check(between(1U, kMostThreads))
      ->type_name("N");
  app->add_option("--context", common->context, "Tokens of context; default: the model's plan")
      ->check(between(1U, kMaxContext))
      ->type_name("N");
  add_named(app, "--backend", kBackends, &common->backend, "auto, exact or xnnpack; default: auto");
  add_isa(app, common);
  add_named(app, "--kv", kKvFormats, &common->kv_format,
            "KV: int8, k8v4, f32; default: int8 (f32 weights: f32)");
  app->add_option("--prefill-chunk", common->prefill_chunk,
                  "Tokens handled at once; default: 64. Changes no token")
      ->check(between(1U, kMaxPrefillChunk))
      ->type_name("N");
  app->add_option("--snapshots", common->n_snapshots,
                  "States of layers kept to read on from; default: 2")
      ->check(between(0U, uint32_t{CRIA_MAX_SNAPSHOTS}))
      ->type_name("N");
  app->add_flag_callback(
      "--no-mmap", [common] { common->mapping = Mapping::kNever; },
      "Copy weights to memory, use no file in place");
  app->add_flag("--verbose", common->verbose, "Say on standard error what is used");
}

CLI::Option* add_ids(CLI::App* app, std::vector<uint32_t>* ids, const char* help) {
  return add_list(app, "--ids", ids, 0U, std::numeric_limits<uint32_t>::max() - 1, help);
}

void add_info(CLI::App* app, InfoOptions* options) {
  add_common(app, &options->common);
  app->add_flag("--json", options->json, "One JSON object");
  app->add_option("--sessions", options->n_sessions, "Conversations that share the model")
      ->check(between(1U, kMaxSessions))
      ->capture_default_str()
      ->type_name("N");
  app->footer("Example: cria info demo.cria --context 512 --kv f32");
}

void add_tools(CLI::App* app, ToolOptions* options) {
  CLI::Option* const tools = app->add_option("--tools", options->tools,
                                             "Tools that may be called, as JSON; prints the calls")
                                 ->type_name("FILE");
  app->add_option("--tool-choice", options->choice,
                  "auto, none, required or a tool's name; default: auto")
      ->type_name("NAME")
      ->needs(tools);
}

void add_run(CLI::App* app, RunOptions* options) {
  add_common(app, &options->common);
  CLI::Option* const prompt =
      app->add_option("-p,--prompt", options->prompt, "Text to continue; - reads standard input")
          ->type_name("TEXT");
  add_ids(app, &options->ids, "Token ids to continue; prints ids")->excludes(prompt);
  app->add_option("--prompt-cache", options->prompt_cache,
                  "Keep what reading the prompt gave there")
      ->type_name("FILE");
  app->add_flag_callback(
      "--no-echo", [options] { options->echo = false; }, "Do not print the prompt");
  app->add_flag("--parse-special", options->parse_special, "Read special tokens written out in it");
  app->add_flag("--ignore-end", options->ignore_end, "Do not stop at end tokens");
  CLI::Option* const json =
      app->add_flag("--json", options->json, "Answer with a JSON document, without the prompt");
  app->add_option("--json-schema", options->json_schema,
                  "A document of this schema; -: standard input")
      ->type_name("FILE")
      ->excludes(json);
  add_tools(app, &options->tools);
  add_sampling(app, &options->sampling, "Tokens to make; default: until an end token");
  app->footer(
      "Examples: cria run demo.cria -p \"Once upon a time\" -n 64 --seed 7\n"
      "          cria run demo.cria -p - --greedy < question.txt\n"
      "          cria run demo.cria -p \"A person: \" --json-schema person.json");
}

CLI::Option* add_date(CLI::App* app, std::string* date) {
  return app->add_option("--date", *date, "Day that the chat template names; default: its own")
      ->type_name("YYYY-MM-DD");
}

void add_chat(CLI::App* app, ChatOptions* options) {
  add_common(app, &options->common);
  app->add_option("--system", options->system, "What the model is told beforehand")
      ->type_name("TEXT");
  add_date(app, &options->date);
  app->add_flag("--exact-context", options->exact_context,
                "Read again what stays when the context is full");
  app->add_option("--prompt-cache", options->prompt_cache,
                  "Keep what reading the system text gave there")
      ->type_name("FILE");
  add_named(app, "--thinking", kThinking, &options->thinking,
            "on, off; or how it is shown: dim, hide, plain");
  app->add_flag_callback(
      "--no-history", [options] { options->history = false; }, "Keep no lines for the next chat");
  add_tools(app, &options->tools);
  add_sampling(app, &options->sampling, "Longest answer in tokens; default: no limit");
  app->footer(
      "On a terminal /help lists the commands. Through a pipe each line is a message,\n"
      "also one that starts with a slash:\n"
      "          echo hello | cria chat demo.cria");
}

void add_bench(CLI::App* app, BenchOptions* options) {
  constexpr uint32_t kMaxLength = kMaxContext;
  add_common(app, &options->common);
  app->remove_option(app->get_option("--threads"));
  add_list(app, "--threads", &options->threads, 1U, kMostThreads, "Thread counts to measure");
  add_list(app, "-p,--prompt", &options->prompts, 1U, kMaxLength,
           "Prompt lengths; default: 128,512");
  add_list(app, "--depth", &options->depths, 0U, kMaxLength,
           "Tokens in the context before; default: 0");
  add_list(app, "--sessions", &options->sessions, 1U, kMaxSessions,
           "Sessions that decode together");
  app->add_option("-n", options->n_decode, "Tokens to decode")
      ->check(between(1U, kMaxLength))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("-r,--repetitions", options->repetitions, "Measured runs after the warm-up")
      ->check(between(1U, kMaxRepetitions))
      ->capture_default_str()
      ->type_name("N");
  app->add_flag("--json", options->json, "One JSON object");
  app->footer("Example: cria bench demo.cria -p 128 -n 64 --depth 0,256 --threads 1,2 --json");
}

void add_tokenize(CLI::App* app, TokenizeOptions* options) {
  add_common(app, &options->common);
  CLI::Option* const input =
      app->add_option("input", options->input, "A text file; -, the default: standard input")
          ->type_name("FILE");
  CLI::Option* const special =
      app->add_flag("--special", options->add_special, "Add BOS and EOS by the tokenizer's rules");
  CLI::Option* const parse = app->add_flag("--parse-special", options->parse_special,
                                           "Read special tokens written out in it");
  CLI::Option* const chat = app->add_option_function<std::string>(
                                   "--chat",
                                   [options](const std::string& path) {
                                     options->is_chat = true;
                                     options->input = path;
                                   },
                                   "JSON list of role and content; - is standard input")
                                ->type_name("MESSAGES.json")
                                ->excludes(input)
                                ->excludes(special)
                                ->excludes(parse);
  app->add_flag("--closed", options->closed, "Do not open the assistant's turn")->needs(chat);
  app->add_option("--tools", options->tools, "JSON list of the tools of the conversation")
      ->type_name("TOOLS.json")
      ->needs(chat);
  app->add_option("--template-args", options->template_args,
                  "Variables of the template: {\"enable_thinking\": false}")
      ->type_name("JSON")
      ->needs(chat);
  add_date(app, &options->date)->needs(chat);
  app->footer(
      "Examples: echo -n hello | cria tokenize demo.cria\n"
      "          cria tokenize demo.cria --chat messages.json --tools tools.json");
}

void add_calls(CLI::App* app, CallsOptions* options) {
  add_common(app, &options->common);
  app->add_option("input", options->input, "An answer; -, the default: standard input")
      ->type_name("FILE");
  app->add_option("--tools", options->tools, "JSON list of the tools that the model knew")
      ->type_name("TOOLS.json");
  app->add_option("--opened", options->opened, "What the prompt opened of the answer: <think>")
      ->type_name("TEXT");
  app->footer("Example: cria calls demo.cria --tools tools.json answer.txt");
}

void add_logits(CLI::App* app, LogitsOptions* options) {
  add_common(app, &options->common);
  CLI::Option* const ids = add_ids(app, &options->ids, "Token ids");
  app->add_option("--text", options->text, "Text, encoded with special tokens added")
      ->type_name("TEXT")
      ->excludes(ids);
  app->add_option("-o,--output", options->output, "float32 [ids][vocab]; -: standard output")
      ->required()
      ->type_name("FILE");
  app->footer("Example: cria logits demo.cria --ids 1,5,9 -o logits.f32");
}

void add_embed(CLI::App* app, EmbedOptions* options) {
  constexpr uint32_t kMostDimensions = 1 << 17;
  add_common(app, &options->common);
  CLI::Option* const input =
      app->add_option("input", options->input, "A text a line; -, the default: standard input")
          ->type_name("FILE");
  CLI::Option* const text =
      app->add_option("--text", options->text, "One text")->type_name("TEXT")->excludes(input);
  app->add_flag("--whole", options->whole, "The input is one text")->excludes(text);
  app->add_option("--dimensions", options->dimensions, "The first N values; default: all")
      ->check(between(1U, kMostDimensions))
      ->type_name("N");
  app->footer(
      "Examples: cria embed qwen3-embedding.cria --text \"a river in spring\"\n"
      "          cria embed qwen3-embedding.cria lines.txt --dimensions 256 > vectors.jsonl");
}

void add_eval(CLI::App* app, EvalOptions* options) {
  add_common(app, &options->common);
  CLI::Option* const text =
      app->add_option("--text", options->text_path, "Text to measure on; -: standard input")
          ->type_name("FILE");
  app->add_option("--ids", options->ids_path, "Token ids to measure on, one document a line")
      ->type_name("FILE")
      ->excludes(text);
  app->add_option("--protocol", options->protocol,
                  "documents, or halves: the text as one, scored as llama-perplexity does")
      ->type_name("NAME")
      ->check(CLI::Validator(
          [](const std::string& name) {
            if (name == kDocumentsName || name == kHalvesName) return std::string();
            return value_words(name) + " is not one of: " + kDocumentsName + ", " + kHalvesName;
          },
          ""))
      ->capture_default_str();
  CLI::Option* const reference = app->add_option("--reference", options->reference_path,
                                                 "Model to compare the distributions with")
                                     ->type_name("F32.cria");
  add_named(app, "--reference-kv", kKvFormats, &options->reference_kv_format,
            "KV cache of the reference; default: as --kv")
      ->needs(reference);
  app->add_flag("--json", options->json, "One JSON object");
  app->footer("Example: cria eval demo.cria --text heldout.txt --reference demo-f32.cria");
}

void add_serve(CLI::App* app, ServeOptions* options) {
  constexpr uint16_t kMostPort = 65535;
  constexpr uint32_t kMostWaiting = 4096;
  constexpr uint32_t kMostMegabytes = 1000000000;
  add_common(app, &options->common);
  app->add_option("--host", options->host, "Address to listen on; 0.0.0.0: all of this machine")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app->add_option("--port", options->port, "Port; 0: any that is free")
      ->check(between(uint16_t{0}, kMostPort))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--sessions", options->n_sessions, "Answered at once; default: 4, or what fits")
      ->check(between(1U, kMaxSessions))
      ->type_name("N");
  app->add_option("--queue", options->queue, "Requests that wait for one; more get 429")
      ->check(between(0U, kMostWaiting))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--api-key-file", options->api_key_file, "Keys that clients need, one a line")
      ->type_name("FILE");
  app->add_option("--allow-origin", options->origins, "A site whose pages may ask; may be repeated")
      ->allow_extra_args(false)
      ->type_name("ORIGIN");
  app->add_option("--alias", options->alias, "What the model is called; default: its file")
      ->type_name("NAME");
  app->add_flag("--metrics", options->metrics, "Counts for Prometheus at /metrics");
  CLI::Option* const prefix_cache = app->add_option("--prefix-cache", options->prefix_cache,
                                                    "Keep there what prompts have in common")
                                        ->type_name("DIR");
  app->add_option("--prefix-cache-size", options->prefix_cache_megabytes,
                  "Megabytes that it may have there")
      ->check(between(1U, kMostMegabytes))
      ->capture_default_str()
      ->type_name("MB")
      ->needs(prefix_cache);
  app->footer(
      "Example: cria serve demo.cria --port 8081 &\n"
      "         curl localhost:8081/v1/chat/completions \\\n"
      "           -d '{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}'");
}

// Every command's options, filled by the parse of whichever was named.
struct AllOptions {
  InfoOptions info;
  VerifyOptions verify;
  RunOptions run;
  ChatOptions chat;
  BenchOptions bench;
  TokenizeOptions tokenize;
  CallsOptions calls;
  LogitsOptions logits;
  EmbedOptions embed;
  EvalOptions eval;
  ServeOptions serve;
};

void add_commands(CLI::App* app, AllOptions* all) {
  add_info(app->add_subcommand("info", "Architecture, sizes and the memory plan"), &all->info);
  CLI::App* const verify = app->add_subcommand("verify", "Check every byte of the file");
  add_model(verify, &all->verify.model_path);
  verify->footer("Example: cria verify demo.cria && echo good");
  add_run(app->add_subcommand("run", "Continue a prompt"), &all->run);
  add_chat(app->add_subcommand("chat", "Hold a conversation"), &all->chat);
  add_bench(app->add_subcommand("bench", "Measure speed and memory"), &all->bench);
  add_tokenize(app->add_subcommand("tokenize", "Token ids of a text"), &all->tokenize);
  add_calls(app->add_subcommand("calls", "Text, thinking and calls of an answer"), &all->calls);
  add_logits(app->add_subcommand("logits", "Logits after every token, to a file"), &all->logits);
  add_embed(app->add_subcommand("embed", "Embeddings of texts, a JSON array each"), &all->embed);
  add_eval(app->add_subcommand("eval", "Perplexity of a text"), &all->eval);
  add_serve(app->add_subcommand("serve", "Answer many over HTTP, and show a page"), &all->serve);
}

Command chosen_command(const CLI::App& app, const AllOptions& all) {
  if (app.got_subcommand("info")) return all.info;
  if (app.got_subcommand("verify")) return all.verify;
  if (app.got_subcommand("run")) return all.run;
  if (app.got_subcommand("chat")) return all.chat;
  if (app.got_subcommand("bench")) return all.bench;
  if (app.got_subcommand("tokenize")) return all.tokenize;
  if (app.got_subcommand("calls")) return all.calls;
  if (app.got_subcommand("logits")) return all.logits;
  if (app.got_subcommand("embed")) return all.embed;
  if (app.got_subcommand("serve")) return all.serve;
  return all.eval;
}

[[noreturn]] void throw_usage(std::string message, const CLI::App& app) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  const auto parsed = app.get_subcommands();
  const std::string name = parsed.empty() ? "" : parsed[0]->get_name() + " ";
  throw ProgramError(ExitCode::kUsage, message + "; see cria " + name + "--help");
}

// One blank line between parts, one newline at the end.
std::string tidy_help(std::string text) {
  for (size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  while (text.ends_with("\n\n")) text.pop_back();
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

bool is_command(const CLI::App& app, const std::string& name) {
  const auto has_name = [&name](const CLI::App* sub) { return sub->get_name() == name; };
  return !app.get_subcommands(has_name).empty();
}

// The options of a command for which an empty text is one.
std::vector<std::string> options_of_texts(const CLI::App& command) {
  const std::string& name = command.get_name();
  if (name == "run") return {"--prompt"};
  if (name == "logits" || name == "embed") return {"--text"};
  if (name == "calls") return {"--opened"};
  return {};
}

// Rules between options that the library cannot express.
void check_together(const CLI::App& app, const AllOptions& all) {
  if (app.got_subcommand("run") && !all.run.prompt && all.run.ids.empty()) {
    throw_usage("give a prompt with -p, or --ids", app);
  }
  const bool is_json = all.run.json || all.run.json_schema;
  if (is_json && (!all.run.prompt || all.run.ignore_end)) {
    throw_usage("--json and --json-schema cannot be combined with --ids or --ignore-end", app);
  }
  if (all.run.json_schema == "-" && all.run.prompt == "-") {
    throw_usage("only one of -p and --json-schema can read standard input", app);
  }
  if (all.run.tools.tools == "-" && all.run.prompt == "-") {
    throw_usage("only one of -p and --tools can read standard input", app);
  }
  if (all.chat.tools.tools == "-") {
    throw_usage("--tools: standard input has the messages; give a file", app);
  }
  if (all.tokenize.tools == "-" && all.tokenize.input == "-") {
    throw_usage("only one of --chat and --tools can read standard input", app);
  }
  if (all.calls.tools == "-" && all.calls.input == "-") {
    throw_usage("only one of the answer and --tools can be standard input", app);
  }
  if (app.got_subcommand("logits") && !all.logits.text && all.logits.ids.empty()) {
    throw_usage("give --ids or --text", app);
  }
  if (app.got_subcommand("eval") && all.eval.text_path.empty() == all.eval.ids_path.empty()) {
    throw_usage("give one of --text and --ids", app);
  }
}

}  // namespace

std::variant<Command, HelpText> parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Runs a LLaMA model that cria-convert wrote, in memory known beforehand.", "cria");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this");
  app.set_version_flag(
      "--version", std::string("cria ") + cria_version() + "\nline editing: " + line_editor_name(),
      "Print the version");
  app.require_subcommand(1);
  app.footer(
      "Examples: cria-convert models/demo -o demo.cria\n"
      "          cria info demo.cria\n"
      "          cria chat demo.cria\n"
      "Exit codes: 0 done, 2 usage, 3 input invalid or unsupported, 4 I/O, 5 memory,\n"
      "            6 not finished.");
  AllOptions all;
  add_commands(&app, &all);
  if (argc < 2) throw_usage("name a command", app);
  if (argv[1][0] != '-' && !is_command(app, argv[1])) {
    throw_usage(std::string(argv[1]) + " is not a command", app);
  }
  try {
    app.parse(argc, argv);
    const CLI::App& command = *app.get_subcommands().front();
    refuse_empty_values(command, options_of_texts(command));
  } catch (const CLI::CallForVersion& version) {
    return HelpText{std::string(version.what()) + "\n"};
  } catch (const CLI::CallForHelp&) {
    return HelpText{tidy_help(app.help())};
  } catch (const CLI::ParseError& error) {
    throw_usage(error.what(), app);
  }
  check_together(app, all);
  return chosen_command(app, all);
}

}  // namespace cria::hosted
