/* The smallest program: a model in memory, one array to work in, and the text that follows a
 * prompt. The same file runs on a host and on a microcontroller (docs/porting.md); putchar is all
 * it asks of either. */
#include <cria.h>
#include <stdio.h>

extern const unsigned char minimal_model[], minimal_model_end[]; /* model.S */
static unsigned char arena[192 * 1024 + 63];

static const void* map(void* context, uint64_t offset, size_t n_bytes) {
  (void)context;
  (void)n_bytes;
  return minimal_model + offset;
}

int main(void) {
  const char prompt[] = "Once upon a time";
  const cria_source source = {NULL, (uint64_t)(minimal_model_end - minimal_model), map, NULL};
  const cria_config config = {
      .context = 64, .prefill_chunk = 8, .source_is_mapped = 1, .backend = CRIA_BACKEND_EXACT};
  const cria_sampling greedy = {.temperature = 0};
  cria_text_state text_state = {.started = 1};
  cria_instance cria;
  uint32_t tokens[64];
  char text[CRIA_TEXT_BYTES];
  size_t n = 0;
  void* memory = arena + (64 - (uintptr_t)arena % 64) % 64;

  if (cria_open(memory, sizeof arena - 63, &source, &config, &cria) != CRIA_OK) return 1;
  if (cria_encode(cria.workspace, prompt, sizeof prompt - 1, CRIA_ENCODE_SPECIAL, tokens, 64, &n) !=
      CRIA_OK)
    return 2;
  for (int i = 0; i < 24; ++i) {
    if (cria_prefill(cria.workspace, cria.session, tokens, n) != CRIA_OK) return 3;
    if (cria_sample(cria.workspace, cria.session, &greedy, tokens) != CRIA_OK) return 4;
    if (cria_is_end_token(cria.model, tokens[0])) break;
    if (cria_decode_token(cria.model, &text_state, tokens[0], text, sizeof text, &n) != CRIA_OK)
      return 5;
    for (size_t j = 0; j < n; ++j) putchar(text[j]);
    n = 1;
  }
  putchar('\n');
  return 0;
}
