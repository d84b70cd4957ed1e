/* A plugin of qemu-user that prints how many guest instructions a program retires. Debian packages
 * no header for plugins, so the few prototypes are declared here (plugin interface version 1).
 *
 *   gcc -shared -fPIC -O2 tests/tools/instruction_counter.c -o counter.so
 *   qemu-aarch64 -cpu cortex-a76 -plugin ./counter.so -d plugin <program>
 *
 * Exact for one thread; threads share the count without locks. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
enum { kAddU64 = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                  void (*callback)(qemu_plugin_id_t,
                                                                   struct qemu_plugin_tb*));
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* block, int operation,
                                                     void* counter, uint64_t value);
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t, void*), void* data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
extern void qemu_plugin_outs(const char* text);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t n_instructions;

static void count_block(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, kAddU64, &n_instructions,
                                           qemu_plugin_tb_n_insns(block));
}

static void print_count(qemu_plugin_id_t id, void* data) {
  char text[64];
  (void)id;
  (void)data;
  snprintf(text, sizeof text, "instructions: %llu\n", (unsigned long long)n_instructions);
  qemu_plugin_outs(text);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id,
                                                               const qemu_info_t* info, int argc,
                                                               char** argv) {
  (void)info;
  (void)argc;
  (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
  qemu_plugin_register_atexit_cb(id, print_count, NULL);
  return 0;
}
