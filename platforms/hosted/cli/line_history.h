// The lines that were typed in earlier chats, in a file of the user's.
#pragma once

#include <string>
#include <vector>

namespace cria::hosted {

// $XDG_STATE_HOME/cria/history, else ~/.local/state/cria/history; empty where neither is known.
std::string history_path();

// A line of the file each, the newest last; in it a newline is written \n and a backslash \\. At
// most 1000 of them and 1 MiB; readable by nobody else. Whatever is wrong with the file is told
// once, and it is not touched from then on.
class LineHistory {
 public:
  // An empty path: no file.
  explicit LineHistory(const std::string& path);

  const std::vector<std::string>& lines() const { return lines_; }
  // Remembers a line, unless it is the newest, and writes the file, with what other programs have
  // written there since.
  void add(const std::string& line);

 private:
  void write() const;
  void give_up(const std::string& why);

  std::string path_;  // empty: no file, or not any more
  std::vector<std::string> lines_;
};

}  // namespace cria::hosted
