/* Opens a model file with libcria-dev's library alone and prints how many bytes it takes. */
#include <cria.h>
#include <stdio.h>

static int read_file(void* context, uint64_t offset, void* destination, size_t n_bytes) {
  FILE* const file = context;
  if (fseek(file, (long)offset, SEEK_SET) != 0) return 1;
  return fread(destination, 1, n_bytes, file) == n_bytes ? 0 : 1;
}

_Alignas(64) static unsigned char memory[64 << 20];

int main(int argc, char** argv) {
  FILE* const file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  cria_source source = {0};
  cria_config config = {0};
  cria_model_info info;
  cria_memory_plan plan;
  cria_instance cria;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) return 2;
  source.context = file;
  source.size = (uint64_t)ftell(file);
  source.read = read_file;
  if (cria_inspect(&source, &info) != CRIA_OK) return 3;
  if (cria_plan(&info, &config, &plan) != CRIA_OK || plan.total > sizeof memory) return 4;
  if (cria_open(memory, sizeof memory, &source, &config, &cria) != CRIA_OK) return 5;
  printf("%llu bytes\n",
         (unsigned long long)(cria_model_bytes(cria.model) + cria_session_bytes(cria.session) +
                              cria_workspace_bytes(cria.workspace)));
  return 0;
}
