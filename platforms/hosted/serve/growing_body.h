// What HTTP's parser puts the body of a request into.
#pragma once

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional/optional.hpp>

#include <cstdint>
#include <new>
#include <string>

#include "platforms/hosted/serve/network_names.h"

namespace cria::hosted {

// A body in memory that grows with what arrives: what a header announces costs nothing.
struct GrowingBody {
  // The library's names.
  using value_type = std::string;  // NOLINT(readability-identifier-naming)
  class reader {                   // NOLINT(readability-identifier-naming)
   public:
    template <bool kIsRequest, typename Fields>
    reader(http::header<kIsRequest, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>&, ErrorCode& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, ErrorCode& error) {
      error = {};
      const size_t before = body_.size();
      try {
        append(buffers);
      } catch (const std::bad_alloc&) {
        error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
      }
      return body_.size() - before;
    }
    void finish(ErrorCode& error) { error = {}; }

   private:
    template <typename Buffers>
    void append(const Buffers& buffers) {
      for (const auto part : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(part.data()), part.size());
      }
    }

    value_type& body_;
  };
};

}  // namespace cria::hosted
