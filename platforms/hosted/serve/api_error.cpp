#include "platforms/hosted/serve/api_error.h"

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/json_text.h"

namespace cria::hosted {
namespace {

struct KindRow {
  ErrorKind kind;
  int status;
  const char* type;
};
constexpr KindRow kKinds[] = {
    {ErrorKind::kInvalidRequest, 400, "invalid_request_error"},
    {ErrorKind::kAuthentication, 401, "authentication_error"},
    {ErrorKind::kPermission, 403, "permission_error"},
    {ErrorKind::kNotFound, 404, "not_found_error"},
    {ErrorKind::kMethodNotAllowed, 405, "invalid_request_error"},
    {ErrorKind::kTimeout, 408, "invalid_request_error"},
    {ErrorKind::kLengthRequired, 411, "invalid_request_error"},
    {ErrorKind::kTooLarge, 413, "invalid_request_error"},
    {ErrorKind::kUnsupportedMedia, 415, "invalid_request_error"},
    {ErrorKind::kContextSize, 400, "exceed_context_size_error"},
    {ErrorKind::kTooMany, 429, "rate_limit_error"},
    {ErrorKind::kHeaderTooLarge, 431, "invalid_request_error"},
    {ErrorKind::kServer, 500, "server_error"},
    {ErrorKind::kNotSupported, 501, "not_supported_error"},
    {ErrorKind::kUnavailable, 503, "unavailable_error"},
};

const KindRow& row_of(ErrorKind kind) {
  for (const KindRow& row : kKinds) {
    if (row.kind == kind) return row;
  }
  return kKinds[0];
}

}  // namespace

ApiError::ApiError(const ContextSizes& sizes)
    : kind_(ErrorKind::kContextSize),
      message_(text_of("the request has %llu tokens and exceeds the available context size of %llu "
                       "tokens; %s",
                       static_cast<unsigned long long>(sizes.n_prompt_tokens),
                       static_cast<unsigned long long>(sizes.n_ctx), sizes.what_to_do)),
      sizes_(sizes) {}

int ApiError::http_status() const { return row_of(kind_).status; }

std::string ApiError::json(WireForm form) const {
  if (form == WireForm::kLines) return JsonText::object({{"error", message_}}).take();
  JsonText error = JsonText::object({{"message", message_},
                                     {"type", row_of(kind_).type},
                                     {"param", param_.empty() ? JsonText(nullptr) : param_},
                                     {"code", http_status()}});
  if (sizes_) {
    error.put("n_prompt_tokens", sizes_->n_prompt_tokens);
    error.put("n_ctx", sizes_->n_ctx);
  }
  return JsonText::object({{"error", error}}).take();
}

Reply ApiError::reply(WireForm form) const {
  Reply reply;
  reply.status = http_status();
  reply.body = json(form);
  if (kind_ == ErrorKind::kTooMany || kind_ == ErrorKind::kUnavailable) {
    reply.headers.push_back({"Retry-After", "1"});
  }
  if (kind_ == ErrorKind::kAuthentication) reply.headers.push_back({"WWW-Authenticate", "Bearer"});
  return reply;
}

}  // namespace cria::hosted
