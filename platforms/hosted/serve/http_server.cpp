#include "platforms/hosted/serve/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <new>
#include <thread>
#include <utility>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/connection.h"
#include "platforms/hosted/serve/http_server_impl.h"

namespace cria::hosted {
namespace {

// Waits for memory where there is none: what the server's end hangs on is not lost.
void post_surely(asio::io_context* io, const std::function<void()>& task) {
  constexpr std::chrono::milliseconds kPause{10};
  for (;;) {
    try {
      return asio::post(*io, task);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

class ServerWaker final : public Waker {
 public:
  explicit ServerWaker(asio::io_context* io) : io_(io) {}
  void wake(std::shared_ptr<Wakeable> sleeper) noexcept override {
    asio::post(*io_, stored_in(memory_, [sleeper = std::move(sleeper)] { sleeper->on_wake(); }));
  }

 private:
  asio::io_context* io_;
  std::shared_ptr<HandlerMemory> memory_ = std::make_shared<HandlerMemory>();
};

// A descriptor for each connection, and those of the program itself; whatever comes after it may
// take some.
const HttpOptions& with_descriptors(const HttpOptions& options) {
  constexpr rlim_t kOthers = 32;
  const rlim_t wanted = options.limits.n_connections + kOthers;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
    return options;
  }
  if (limit.rlim_max < wanted) {
    throw ProgramError(ExitCode::kIo,
                       text_of("this process may open %llu files and connections, and the server "
                               "needs %llu; raise ulimit -n",
                               static_cast<unsigned long long>(limit.rlim_max),
                               static_cast<unsigned long long>(wanted)));
  }
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return options;
}

// Of an address that cannot be listened on.
const char* advice_on_address(int error_number) {
  switch (error_number) {
    case EADDRINUSE:
      return "; choose another with --port, or --port 0 for a free one";
    case EADDRNOTAVAIL:
      return "; give --host an address of this machine";
    case EACCES:
      return "; choose another with --port, from 1024 on";
    default:
      return "";
  }
}

}  // namespace

HttpServer::Impl::Impl(const HttpOptions& given, RequestHandler* its_handler)
    : options(with_descriptors(given)), handler(its_handler) {
  ErrorCode error;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    throw ProgramError(ExitCode::kUsage, "--host " + shown(options.host) +
                                             " is not an address; give one of this machine's, or "
                                             "localhost");
  }
  const Tcp::endpoint endpoint(address, options.port);
  const auto step = [&](const char* what) {
    if (error) {
      throw_system_error(
          error.value(),
          text_of("%s port %u", shown(options.host).c_str(), static_cast<unsigned>(options.port)),
          what, advice_on_address(error.value()));
    }
  };
  acceptor.open(endpoint.protocol(), error);
  step("cannot make a socket");
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (address.is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  acceptor.bind(endpoint, error);
  step("cannot be used");
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  step("cannot listen");
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(stored_in(accept_memory_, [this](ErrorCode error, Tcp::socket socket) {
    on_accepted(error, std::move(socket));
  }));
  accept_is_pending_ = true;
}

void HttpServer::Impl::on_accepted(ErrorCode error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  accept_is_pending_ = false;
  if (is_stopping) return;
  if (!error) {
    lacks_descriptors_ = false;
    accept();
    return welcome(std::move(socket));
  }
  // Out of descriptors: those that are closed meanwhile can be had again.
  constexpr std::chrono::milliseconds kPause{100};
  accept_is_pending_ = true;
  accept_again_.expires_after(kPause);
  accept_again_.async_wait(stored_in(pause_memory_, [this](ErrorCode wait_error) {
    accept_is_pending_ = false;
    if (!wait_error && !is_stopping) accept();
  }));
  if (!std::exchange(lacks_descriptors_, true) && options.log != nullptr) {
    options.log("cannot take a connection: " + error.message());
  }
}

void HttpServer::Impl::turn_away(Tcp::socket socket, const std::string& text) {
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
}

// Null: every client waits for its answer.
std::shared_ptr<Connection> HttpServer::Impl::slowest_connection() const {
  const int64_t now_ms = monotonic_ms();
  std::shared_ptr<Connection> slowest;
  std::optional<Connection::Pace> least;
  for (const std::shared_ptr<Connection>& each : connections_) {
    const std::optional<Connection::Pace> pace = each->pace(now_ms);
    if (!pace || (least && !(*pace < *least))) continue;
    slowest = each;
    least = pace;
  }
  return slowest;
}

void HttpServer::Impl::welcome(Tcp::socket socket) {
  ErrorCode ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  // What the system has taken is what the client has, but for a little: else it takes megabytes
  // ahead, tells of room by the third of them, and who reads slowly looks like one who does not.
  using NotSent = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;
  socket.set_option(NotSent(static_cast<int>(options.limits.text_bytes / 4)), ignored);
  if (connections_.size() >= options.limits.n_connections) {
    const std::shared_ptr<Connection> slowest = slowest_connection();
    if (slowest == nullptr) return turn_away(std::move(socket), too_many_text_);
    slowest->cut_off("cut off for another client, as its own takes or sends too little");
  }
  std::shared_ptr<Connection> connection;
  try {
    connection = std::make_shared<Connection>(this);
    connections_.insert(connection);
  } catch (const std::bad_alloc&) {
    return turn_away(std::move(socket), no_memory.events.text);
  }
  connection->start(std::move(socket));
  if (!is_ticking_) wait_for_tick();
}

// One clock for all, while there are any: a second more or less is nothing to them.
void HttpServer::Impl::wait_for_tick() {
  constexpr std::chrono::milliseconds kTick{200};
  tick_.expires_after(kTick);
  tick_.async_wait(stored_in(tick_memory_, [this](ErrorCode error) {
    is_ticking_ = false;
    if (error) return;
    if (!connections_.empty()) wait_for_tick();
    const int64_t now_ms = monotonic_ms();
    for (auto next = connections_.begin(); next != connections_.end();) {
      const std::shared_ptr<Connection> each = *next++;  // which may end meanwhile
      each->guard([&] { each->on_tick(now_ms); });
    }
  }));
  is_ticking_ = true;
}

// The largest that still arrive make room, but for small ones, which the number of connections
// bounds.
void HttpServer::Impl::count_body(size_t n_bytes) {
  *bodies_bytes += n_bytes;
  while (*bodies_bytes > options.limits.bodies_bytes) {
    std::shared_ptr<Connection> largest;
    for (const std::shared_ptr<Connection>& each : connections_) {
      if (largest == nullptr || each->unfinished_bytes() > largest->unfinished_bytes()) {
        largest = each;
      }
    }
    if (largest == nullptr || largest->unfinished_bytes() <= options.limits.small_body_bytes)
      return;
    largest->drop_body();
  }
}

void HttpServer::Impl::forget(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  leave_when_done();
}

void HttpServer::Impl::leave_when_done() {
  if (is_finishing_ && connections_.empty()) io.stop();
}

void HttpServer::Impl::stop_accepting() {
  is_stopping = true;
  ErrorCode ignored;
  acceptor.close(ignored);
  for (auto next = connections_.begin(); next != connections_.end();) {
    const std::shared_ptr<Connection> each = *next++;
    if (each->is_idle()) each->close();
  }
}

void HttpServer::Impl::finish(int patience_seconds) {
  is_finishing_ = true;
  leave_when_done();
  patience_.expires_after(std::chrono::seconds(patience_seconds));
  patience_.async_wait([this](ErrorCode error) {
    if (!error) io.stop();
  });
}

void HttpServer::Impl::run(std::function<void()> on_stop) {
  asio::signal_set signals(io, SIGINT, SIGTERM);
  // A program that nohup started outlives its terminal.
  struct sigaction at_hangup = {};
  ::sigaction(SIGHUP, nullptr, &at_hangup);
  if (at_hangup.sa_handler != SIG_IGN) signals.add(SIGHUP);
  signals.async_wait([&](ErrorCode error, int) {
    if (error) return;
    ErrorCode ignored;
    signals.clear(ignored);  // the next one ends the program
    on_stop();
  });
  // Connections may wait without any operation; finish ends it.
  const auto work = asio::make_work_guard(io);
  // What has no memory for its next step ends by its deadline; the others go on.
  while (!io.stopped()) {
    try {
      if (!accept_is_pending_ && !is_stopping) accept();
      if (!is_ticking_ && !connections_.empty()) wait_for_tick();
      io.run();
    } catch (...) {
      constexpr std::chrono::milliseconds kPause{10};
      std::this_thread::sleep_for(kPause);  // others free some
      // The library may have lost the step that it had no memory for: accepting begins anew.
      ErrorCode ignored;
      acceptor.cancel(ignored);
      accept_is_pending_ = false;
    }
  }
  while (!connections_.empty()) {
    const std::shared_ptr<Connection> each = *connections_.begin();
    each->close();
  }
}

HttpServer::HttpServer(const HttpOptions& options, RequestHandler* handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const {
  const Tcp::endpoint endpoint = impl_->acceptor.local_endpoint();
  const std::string host = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}

void HttpServer::run(std::function<void()> on_stop) { impl_->run(std::move(on_stop)); }

void HttpServer::post(std::function<void()> task) { asio::post(impl_->io, std::move(task)); }

std::unique_ptr<Waker> HttpServer::make_waker() {
  return std::make_unique<ServerWaker>(&impl_->io);
}

void HttpServer::stop_accepting() {
  post_surely(&impl_->io, [this] { impl_->stop_accepting(); });
}

void HttpServer::finish(int patience_seconds) {
  post_surely(&impl_->io, [this, patience_seconds] { impl_->finish(patience_seconds); });
}

}  // namespace cria::hosted
