// From an order to its answer: what a client asked for, at the engine and back.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

// On the network thread, where post brings what the engine tells. All of the prompts are taken, or
// none: then the reply says so.
void start_job(Engine* engine, std::unique_ptr<AnswerWriter> writer,
               std::vector<AnswerRequest> prompts, const std::shared_ptr<Exchange>& exchange,
               const std::function<void(std::function<void()>)>& post);

}  // namespace cria::hosted
