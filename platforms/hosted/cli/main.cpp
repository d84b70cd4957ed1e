#include "platforms/hosted/cli/commands.h"

int main(int argc, char** argv) { return cria::hosted::run_program(argc, argv); }
