// How text gets in: refusing bytes that are no text before any parser sees them. And
// how text of others gets out again.
#pragma once

#include "sim/base/error.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace spillway {

// The lines of `text`, with LF or CRLF ends. Throws InputError when it is larger than
// `most_bytes`, has more or longer lines than any file may (sim/base/input_file.hpp), is
// no valid UTF-8, or holds control characters other than tabs.
[[nodiscard]] std::shared_ptr<const SourceText> make_source(std::string_view text,
                                                            const std::string& name,
                                                            std::size_t most_bytes);

// The first control character other than tab and LF in valid UTF-8.
[[nodiscard]] std::optional<char32_t> find_control_character(std::string_view text);

// Nothing that a file contains may steer the terminal: a control character, tabs and
// line ends too, becomes a blank, a byte that is no UTF-8 becomes U+FFFD. A text of
// more code points than `most_columns` is cut to that many, the last three "...".
[[nodiscard]] std::string printable(std::string_view text,
                                    std::size_t most_columns = std::string_view::npos);

// Whether `text` can stand in one line of a file: valid UTF-8 without control characters.
[[nodiscard]] bool is_plain_line(std::string_view text);

} // namespace spillway
