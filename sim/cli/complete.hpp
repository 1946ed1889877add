// What may stand where the cursor is, asked by the completion scripts of the shells.
// All of it is decided here, so that the scripts only pass words on and three shells
// offer the same.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// `words` are those behind the program's name; the last one, perhaps empty, is being
// written. The first line of the answer is `words`, `files` or `folders`, the last two
// to be listed by the shell. Below `words` comes one candidate a line, with a tab and its
// description behind it if there is one. What cannot be completed is no error.
[[nodiscard]] std::string complete(const std::vector<std::string>& words);

} // namespace spillway
