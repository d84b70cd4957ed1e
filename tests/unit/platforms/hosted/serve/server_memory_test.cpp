// Each allocation of the server's threads fails once: one request hears of it, and the server
// lives.
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "platforms/hosted/serve/api.h"
#include "platforms/hosted/serve/http_server.h"
#include "tests/support/engine_trial.h"
#include "tests/support/failing_memory.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"

namespace cria::hosted {
namespace {

using nlohmann::json;
using test::HttpAnswer;
using test::HttpClient;
using test::Spared;

CommonOptions demo_options() {
  CommonOptions options;
  options.model_path = test::demo_path();
  options.n_threads = 1;
  options.backend = CRIA_BACKEND_EXACT;
  return options;
}

GuardOptions guard_options() {
  GuardOptions options;
  options.host = "127.0.0.1";
  return options;
}

cria_sampling usual_sampling() {
  cria_sampling sampling = {};
  sampling.temperature = 0.8f;
  return sampling;
}

class Served {
 public:
  Served() {
    api_.set_network(&server_);
    thread_ = std::thread([this] { server_.run([] {}); });
  }
  ~Served() {
    server_.stop_accepting();
    engine_.stop(0.0);
    server_.finish(0);
    thread_.join();
    api_.stop();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] std::string address() const { return server_.address(); }
  // What was asked before has ended, answered or not; false: a session or a place in the queue is
  // lost.
  [[nodiscard]] bool is_idle_soon() const {
    return test::becomes_true([this] {
      const EngineCounts counts = engine_.counts();
      return counts.n_busy == 0 && counts.n_waiting == 0;
    });
  }

 private:
  ModelSession model_{demo_options(), {.n_sessions = 2}};
  TextService text_{model_};
  Engine engine_{model_, {.max_waiting = 4, .log = [](const std::string&) {}}};
  Api api_{{.context = {.model = model_,
                        .text = &text_,
                        .engine = &engine_,
                        .usual = usual_sampling(),
                        .model_name = "demo",
                        .n_sessions = 2,
                        .most_prompts = 6},
            .chat_template = {},
            .has_metrics = false,
            .budget = {},
            .started_s = 0,
            .modified_ns = 0,
            .end_token = CRIA_NO_TOKEN},
           guard_options()};
  HttpServer server_{{.host = "127.0.0.1", .port = 0, .log = [](const std::string&) {}}, &api_};
  std::thread thread_;
};

struct Asked {
  const char* method;
  const char* path;
  const char* body;
};
constexpr Asked kAsked[] = {
    {"POST", "/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"hello"}],"seed":1,"max_tokens":3,"logprobs":true,"top_logprobs":2,"n":2})"},
    {"POST", "/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"hello"}],"seed":1,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true}})"},
    {"POST", "/completion",
     R"({"prompt":["Once upon","a time"],"seed":2,"n_predict":2,"n_probs":2,"logit_bias":{"5":1.5,"a":-2},"stop":["zq"]})"},
    {"POST", "/completion",
     R"({"prompt":"A person:","seed":2,"n_predict":3,"stream":true,"json_schema":{"type":"object","properties":{"a":{"enum":["b",1.5]}}}})"},
    {"POST", "/v1/completions",
     R"({"prompt":"Once","max_tokens":2,"logprobs":1,"echo":false,"seed":4})"},
    {"POST", "/tokenize", R"({"content":["a word or two",7],"with_pieces":true})"},
    {"POST", "/apply-template",
     R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]})"},
    {"POST", "/v1/chat/completions", R"({"messages":[{"role":"nobody","content":"hello"}]})"},
    {"POST", "/tokenize", R"({"content":)"},
    {"POST", "/nowhere", "{}"},
    {"POST", "/api/chat",
     R"({"model":"demo","messages":[{"role":"user","content":"hello"}],"options":{"seed":1,"num_predict":3}})"},
    {"POST", "/api/generate",
     R"({"model":"demo","prompt":"hello","stream":false,"options":{"seed":1,"num_predict":3},"format":"json"})"},
    {"POST", "/api/generate", R"({"model":"demo"})"},
    {"POST", "/api/chat", R"({"model":"another"})"},
    {"GET", "/api/tags", ""},
    {"GET", "/props", ""},
    {"GET", "/slots", ""},
    {"GET", "/v1/models", ""},
};

HttpAnswer ask(const std::string& address, const Asked& asked, bool* is_closed) {
  HttpClient client(address);
  const std::string body = asked.body;
  client.send(std::string(asked.method) + " " + asked.path +
              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  HttpAnswer answer = client.read_answer();
  answer.body += client.read_to_end();
  *is_closed = client.is_closed();
  return answer;
}

// What may come where an allocation failed: the answer as always, an error, or an event of one. A
// stream that is cut ends without its last chunk.
bool is_told(const HttpAnswer& answer, const HttpAnswer& usual) {
  if (answer.status == 503 || answer.status == 500) {
    const json told = json::parse(answer.body, nullptr, false);
    if (told.is_object() && told["error"].is_string()) return told["error"] != "";
    return told.is_object() && told["error"]["code"] == answer.status &&
           !told["error"]["message"].get<std::string>().empty();
  }
  if (answer.status != usual.status) return false;
  const bool is_whole = answer.body.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n") ||
                        answer.body.find("\"stop\":true") != std::string::npos;
  const bool has_error =
      answer.body.find("data: {\"error\":{\"message\":\"out of memory") != std::string::npos &&
      answer.body.ends_with("\r\n0\r\n\r\n");
  if (answer.head.find("text/event-stream") != std::string::npos) return is_whole || has_error;
  if (answer.head.find("application/x-ndjson") != std::string::npos) {
    return answer.body.find("\"done\":true") != std::string::npos ||
           answer.body.find("{\"error\":\"out of memory; try again\"}\n") != std::string::npos;
  }
  return json::accept(answer.body);
}

// Allocations until there is a connection with room for an answer.
constexpr int64_t kOfConnection = 12;

TEST(ServerMemory, AFailedAllocationEndsOneRequest) {
  const Spared spared;
  Served served;
  size_t n_asked = 0;
  size_t n_errors = 0;
  size_t n_silent = 0;
  for (const Asked& asked : kAsked) {
    bool is_closed = false;
    const HttpAnswer usual = ask(served.address(), asked, &is_closed);
    ASSERT_NE(usual.status, 0);
    int64_t n = 0;
    for (;; ++n) {
      SCOPED_TRACE(testing::Message() << asked.path << " " << asked.body << ", allocation " << n);
      test::fail_allocations(n, 1 + n % 3);
      const HttpAnswer answer = ask(served.address(), asked, &is_closed);
      const bool has_failed = test::stop_failing();
      ASSERT_TRUE(is_closed) << "it waits for ever";
      ASSERT_TRUE(served.is_idle_soon());
      ++n_asked;
      if (answer.status == 0) {
        ++n_silent;
        // Before there is a connection its client can only be told in passing, and misses it.
        EXPECT_LT(n, kOfConnection) << "no answer";
      } else {
        n_errors += answer.status != usual.status ? 1 : 0;
        ASSERT_TRUE(is_told(answer, usual)) << answer.head << answer.body;
      }
      if (!has_failed) break;
      ASSERT_LT(n, 20000);
    }
    EXPECT_GT(n, 10);
    const HttpAnswer again = ask(served.address(), asked, &is_closed);
    EXPECT_EQ(again.status, usual.status);
  }
  EXPECT_GT(n_errors, 100u) << n_asked;
  EXPECT_LT(n_silent, kOfConnection * std::size(kAsked));
}

// A while without any memory at all: what was asked meanwhile ends, and what comes after is
// served.
TEST(ServerMemory, ItOutlivesAWhileWithoutAny) {
  const Spared spared;
  Served served;
  for (const Asked& asked : kAsked) {
    bool is_closed = false;
    const HttpAnswer usual = ask(served.address(), asked, &is_closed);
    for (const int64_t n : {0, 1, 5, 20, 60, 150, 300}) {
      test::fail_allocations(n, test::kAllThatFollow);
      std::thread memory_comes_back([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        test::stop_failing();
      });
      (void)ask(served.address(), asked, &is_closed);
      EXPECT_TRUE(is_closed) << asked.path << " " << n;
      memory_comes_back.join();
      ASSERT_TRUE(served.is_idle_soon());
      EXPECT_EQ(ask(served.address(), asked, &is_closed).status, usual.status);
    }
  }
}

}  // namespace
}  // namespace cria::hosted
