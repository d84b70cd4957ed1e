// Requests and replies of HTTP, as far as the API looks at them. Knows no library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platforms/hosted/serve/failure.h"
#include "platforms/hosted/serve/wire_form.h"

namespace cria::hosted {

struct HeaderField {
  std::string name;
  std::string value;
};

struct RequestHead {
  std::string method;
  std::string path;   // of the target, without what follows a question mark; as it was sent,
  std::string query;  // but with escapes that are some
  std::string host;
  std::string authority;  // of a target that has one
  std::string origin;     // empty and has_origin: an empty one was sent
  bool has_origin = false;
  std::string authorization;
  std::string api_key;       // X-Api-Key
  std::string content_type;  // in lower case, as are the next
  std::string content_encoding;
  std::string accept;
  std::string local_address;  // that the client connected to
};

struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json; charset=utf-8";
  std::vector<HeaderField> headers;
};

// Puts the text that comes next after what is in text: some, or none where there is none yet.
// False: that was the last.
using NextText = std::function<bool(std::string* text)>;

// One request that waits for its answer. Only the network thread uses it.
//
// Answers that can be long are asked for as their client takes them, some 64 KiB at a time, so that
// a slow one holds little text and nobody else waits while a long answer is written.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // The whole answer.
  virtual void reply(Reply reply) = 0;
  // As above, and next gives the body, all of which can be had.
  virtual void reply(Reply reply, NextText next) = 0;
  // Or a stream in the request's form: of events a comment line goes out at once, and again
  // whenever there was nothing else for some seconds. next is asked when the client has taken what
  // it gave, and after wake.
  virtual void begin_stream(NextText next) = 0;
  virtual void wake() = 0;
  // Is called once if the client goes away before the answer's end, or has gone; also where the
  // answer ends as there is no memory for more of it.
  virtual void when_gone(std::function<void()> told) = 0;
  // The answer, or its rest, is that it failed, as far as there is memory for that.
  virtual void end_early(const Failure& failure) = 0;
  // From any thread: nobody waits for the answer any more.
  [[nodiscard]] virtual bool is_gone() const = 0;
  // What the log's line about this request says besides.
  virtual void note(std::string text) = 0;
};

// What is done on the network thread when it is woken.
class Wakeable {
 public:
  virtual ~Wakeable() = default;
  virtual void on_wake() = 0;
};

// Of one Wakeable. From any thread, and without any memory: wake is called again when on_wake has
// begun.
class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake(std::shared_ptr<Wakeable> sleeper) noexcept = 0;
};

// How other threads reach the network thread.
class NetworkThread {
 public:
  virtual ~NetworkThread() = default;
  // Runs task there. Throws std::bad_alloc.
  virtual void post(std::function<void()> task) = 0;
  virtual std::unique_ptr<Waker> make_waker() = 0;
};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // In which errors and streams are told to whoever sent such a request.
  virtual WireForm form_of(const RequestHead& head) = 0;
  // Judges a request by its head, before its body is read: false, and why not.
  virtual bool accepts(const RequestHead& head, Reply* refusal) = 0;
  // What every reply to such a request carries.
  virtual std::vector<HeaderField> headers_for(const RequestHead& head) = 0;
  virtual void handle(RequestHead head, std::string body, std::shared_ptr<Exchange> exchange) = 0;
};

}  // namespace cria::hosted
