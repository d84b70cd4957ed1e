// What the handler sees of a connection, for one request.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "platforms/hosted/serve/connection.h"

namespace cria::hosted {

class ConnectionExchange final : public Exchange {
 public:
  // Takes over a body's count.
  ConnectionExchange(std::shared_ptr<Connection> connection,
                     std::shared_ptr<std::atomic<size_t>> bodies_bytes, size_t* body_bytes)
      : connection_(std::move(connection)),
        bodies_bytes_(std::move(bodies_bytes)),
        body_bytes_(std::exchange(*body_bytes, 0)) {}
  ~ConnectionExchange() override { *bodies_bytes_ -= body_bytes_; }
  ConnectionExchange(const ConnectionExchange&) = delete;
  ConnectionExchange& operator=(const ConnectionExchange&) = delete;

  void reply(Reply reply) override {
    connection_->guard([&] { connection_->reply(reply); });
  }
  void reply(Reply reply, NextText next) override {
    connection_->guard([&] { connection_->reply(std::move(reply), std::move(next)); });
  }
  void begin_stream(NextText next) override {
    connection_->guard([&] { connection_->begin_stream(std::move(next)); });
  }
  void wake() override {
    connection_->guard([&] { connection_->pump(); });
  }
  void end_early(const Failure& failure) override { connection_->end_answer_early(failure); }
  [[nodiscard]] bool is_gone() const override { return connection_->is_gone(); }
  void when_gone(std::function<void()> told) override {
    connection_->set_when_gone(std::move(told));
  }
  void note(std::string text) override { connection_->note = std::move(text); }

 private:
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<std::atomic<size_t>> bodies_bytes_;
  size_t body_bytes_;
};

}  // namespace cria::hosted
