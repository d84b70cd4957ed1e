#include "platforms/hosted/engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace cria::hosted {

StopStrings::StopStrings(std::vector<std::string> stops) {
  stops_.reserve(stops.size());
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Stop& stop = stops_.emplace_back(Stop{std::move(text), {}});
    stop.borders.assign(stop.text.size(), 0);
    for (size_t i = 1; i < stop.text.size(); ++i) {
      stop.borders[i] = after(stops_.size() - 1, stop.borders[i - 1], stop.text[i]);
    }
  }
}

uint32_t StopStrings::after(size_t i, uint32_t n_matched, char byte) const {
  const Stop& stop = stops_[i];
  while (n_matched > 0 && stop.text[n_matched] != byte) n_matched = stop.borders[n_matched - 1];
  return stop.text[n_matched] == byte ? n_matched + 1 : 0;
}

StopFinder::StopFinder(const StopStrings* stops)
    : stops_(stops), n_matched_(stops == nullptr ? 0 : stops->size(), 0) {}

void StopFinder::feed(std::string_view text) {
  for (size_t at = 0; at < text.size() && found_ == nullptr; ++at) {
    ++n_fed_;
    for (size_t i = 0; i < n_matched_.size(); ++i) {
      n_matched_[i] = stops_->after(i, n_matched_[i], text[at]);
      const std::string& stop = stops_->at(i);
      if (n_matched_[i] < stop.size()) continue;
      if (found_ == nullptr || stop.size() > found_->size()) found_ = &stop;
    }
  }
  const auto longest = std::max_element(n_matched_.begin(), n_matched_.end());
  n_clear_ = n_fed_ - (longest == n_matched_.end() ? 0 : *longest);
  if (found_ != nullptr) n_clear_ = n_fed_ - found_->size();
}

}  // namespace cria::hosted
