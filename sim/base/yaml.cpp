#include "sim/base/yaml.hpp"

#include "sim/base/source_text.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace spillway {

namespace {

[[noreturn]] void fail(Place place, std::string message, std::string hint = {}) {
  throw InputError({Diagnostic{std::move(place), std::move(message), std::move(hint)}});
}

// What yaml-cpp means by its texts, where they do not say it.
[[nodiscard]] std::string syntax_hint(const std::string& message, const std::string& line) {
  if (line.find('\t') < line.find_first_not_of(" \t")) {
    return "indent with spaces, not tabs";
  }
  if (message == YAML::ErrorMsg::MAP_VALUE) {
    return "check the indentation; text that contains ': ' needs quotes";
  }
  if (message == YAML::ErrorMsg::END_OF_MAP || message == YAML::ErrorMsg::END_OF_SEQ) {
    return "check the indentation; nothing may follow a closing quote or bracket";
  }
  if (message == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    return "text that starts with this character needs quotes";
  }
  if (message == YAML::ErrorMsg::END_OF_MAP_FLOW) {
    return "expected ',' or '}'";
  }
  if (message == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    return "expected ',' or ']'";
  }
  return {};
}

// Builds the tree of one document. yaml-cpp reports marks that count from zero
// and in bytes; each map or sequence in progress is one Frame.
class TreeBuilder final : public YAML::EventHandler {
public:
  enum class Layout { any, one_line };

  // `outer_levels` already surround the text.
  TreeBuilder(const std::string& text, std::shared_ptr<const SourceText> source, Layout layout,
              std::size_t outer_levels)
      : text_(&text), source_(std::move(source)), layout_(layout), outer_levels_(outer_levels) {}

  // The tree, or nothing when the text holds no value. Throws InputError.
  [[nodiscard]] std::optional<YamlNode> build() {
    try {
      std::istringstream in(*text_);
      YAML::Parser parser(in);
      while (parser.HandleNextDocument(*this)) {}
    } catch (const YAML::ParserException& error) {
      stop_at_syntax_error(error);
    }
    diagnostics_.throw_if_any();
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_) {
      const bool marker = text_->compare(offset_of(mark), 3, "---") == 0;
      stop(place_of(mark), marker ? "a file must hold one document, not several"
                                  : "unexpected text after the end of the document");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { add(mark, YamlNode{}); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    stop(place_of(mark), "aliases are not supported", "write the value out");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& /*name*/) override {
    stop(place_of(mark), "anchors are not supported", "write the value out where it is needed");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    check_tag(mark, tag);
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.text = value;
    node.quoted = tag == "!";
    if (node.quoted) {
      check_quoted(mark, value);
    }
    add(mark, std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value style) override {
    check_tag(mark, tag);
    open(mark, YamlNode::Kind::sequence, style);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value style) override {
    check_tag(mark, tag);
    open(mark, YamlNode::Kind::map, style);
  }
  void OnMapEnd() override { close(); }

private:
  struct Frame {
    YamlNode node;
    Place start;                            // of the bracket, or of the first child
    bool block = false;                     // without brackets
    std::optional<YamlEntry> pending;       // map only: a key that waits for its value
    std::map<std::string, int> first_lines; // map only: where each key stood first
  };

  [[noreturn]] void stop(Place place, std::string message, std::string hint = {}) {
    diagnostics_.add(std::move(place), std::move(message), std::move(hint));
    diagnostics_.throw_if_any();
    throw std::logic_error("a diagnostic was lost");
  }

  [[noreturn]] void stop_at_syntax_error(const YAML::ParserException& error) {
    const std::string& message = error.msg;
    if (message == YAML::ErrorMsg::UNKNOWN_ANCHOR) { // no anchor ever becomes known
      OnAlias(error.mark, 0);
    }
    const bool unclosed =
        message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW;
    const bool at_end = error.mark.pos == 0 || offset_of(error.mark) == text_->size();
    if (unclosed && at_end && !stack_.empty()) {
      const bool map = stack_.back().node.is_map();
      stop(stack_.back().start, fmt::format("'{}' is never closed", map ? '{' : '['));
    }
    const Place place = place_of(error.mark);
    const auto index = static_cast<std::size_t>(error.mark.line);
    const std::string line = index < source_->lines.size() ? source_->lines[index] : "";
    const bool open_quote = message == YAML::ErrorMsg::EOF_IN_SCALAR;
    stop(place, open_quote ? "the quote is never closed" : message, syntax_hint(message, line));
  }

  [[nodiscard]] std::size_t offset_of(const YAML::Mark& mark) const {
    return std::min(static_cast<std::size_t>(std::max(mark.pos, 0)), text_->size());
  }

  // Events come nearly in order, so the columns since the last one are counted
  // instead of those since the start of the line, which may be the whole file.
  [[nodiscard]] Place place_of(const YAML::Mark& mark) {
    const int line = std::max(mark.line, 0);
    if (line != last_line_) {
      last_line_ = line;
      last_byte_ = 0;
      last_column_ = 0;
    }
    static const std::string nothing;
    const auto index = static_cast<std::size_t>(line);
    const std::string& bytes = index < source_->lines.size() ? source_->lines[index] : nothing;
    const std::size_t target =
        std::min(static_cast<std::size_t>(std::max(mark.column, 0)), bytes.size());
    const std::string_view between = std::string_view(bytes).substr(
        std::min(last_byte_, target), std::max(last_byte_, target) - std::min(last_byte_, target));
    const auto columns = static_cast<int>(count_columns(between));
    last_column_ += last_byte_ < target ? columns : -columns;
    last_byte_ = target;
    return {source_, line + 1, last_column_ + 1};
  }

  // The source is asked as well: yaml-cpp gives `! 1` the tag of quoted text.
  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    const std::size_t at = offset_of(mark);
    if ((tag != "?" && tag != "!") || (at < text_->size() && (*text_)[at] == '!')) {
      stop(place_of(mark), "tags are not supported");
    }
  }

  void check_quoted(const YAML::Mark& mark, const std::string& value) {
    if (const auto control = find_control_character(value)) { // written as an escape
      stop(place_of(mark), fmt::format("control character U+{:04X} in a text",
                                       static_cast<std::uint32_t>(*control)));
    }
    const std::size_t start = offset_of(mark);
    const char quote = start < text_->size() ? (*text_)[start] : '\0';
    if (quote == '"' || quote == '\'') {
      check_closed(mark, start, quote);
    } else if (layout_ == Layout::one_line) {
      stop(place_of(mark), "a text on several lines cannot be written here");
    }
  }

  // yaml-cpp lets the end of the file close a quote.
  void check_closed(const YAML::Mark& mark, std::size_t start, char quote) {
    // Inside, a double quote follows a backslash and a single one is doubled.
    const char escape = quote == '"' ? '\\' : '\'';
    const auto char_at = [this](std::size_t at) {
      return at < text_->size() ? (*text_)[at] : '\n';
    };
    std::size_t at = start + 1;
    while (at < text_->size()) {
      const bool escaped = char_at(at) == escape && (quote == '"' || char_at(at + 1) == quote);
      if (char_at(at) == quote && !escaped) {
        return;
      }
      at += escaped ? 2U : 1U;
    }
    stop(place_of(mark), "the quote is never closed");
  }

  [[nodiscard]] bool awaits_key() const {
    return !stack_.empty() && stack_.back().node.is_map() && !stack_.back().pending;
  }

  void open(const YAML::Mark& mark, YamlNode::Kind kind, YAML::EmitterStyle::value style) {
    const bool is_map = kind == YamlNode::Kind::map;
    const bool block = style == YAML::EmitterStyle::Block;
    if (awaits_key()) { // also what an unclosed bracket looks like to yaml-cpp
      stop(place_of(mark), fmt::format("a key must be a word, not {}", is_map ? "a map" : "a list"),
           block ? "" : fmt::format("or is its '{}' missing?", is_map ? '}' : ']'));
    }
    if (block && !is_map && layout_ == Layout::one_line) {
      stop(place_of(mark), "unexpected list", "write [a, b]");
    }
    if (stack_.size() + outer_levels_ >= most_levels) {
      stop(place_of(mark), fmt::format("nested more than {} levels deep", most_levels));
    }
    Frame frame;
    frame.node.kind = kind;
    frame.start = place_of(mark);
    frame.block = block;
    frame.node.place = block ? place_without_bracket(frame.start) : frame.start;
    stack_.push_back(std::move(frame));
  }

  // A block has no bracket to point at, and yaml-cpp marks its first child, or
  // what follows. It stands at its key, and the outermost one for the whole text.
  [[nodiscard]] Place place_without_bracket(const Place& marked) const {
    if (stack_.empty()) {
      return {source_};
    }
    const std::optional<YamlEntry>& pending = stack_.back().pending;
    return pending ? pending->key_place : marked;
  }

  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    attach(std::move(node));
  }

  void add(const YAML::Mark& mark, YamlNode node) {
    node.place = place_of(mark);
    if (!awaits_key()) {
      if (node.kind == YamlNode::Kind::null && !stack_.empty()) {
        node.place = place_without_bracket(node.place);
      }
      attach(std::move(node));
      return;
    }
    Frame& frame = stack_.back();
    if (frame.block && layout_ == Layout::one_line) {
      stop(frame.start, "unexpected map", "write {key: value}");
    }
    if (node.text.empty()) {
      stop(node.place, "a key must not be empty");
    }
    const auto [first, is_new] = frame.first_lines.try_emplace(node.text, node.place.line);
    if (!is_new) {
      diagnostics_.add(node.place, fmt::format("duplicate key '{}' in {}, first at line {}",
                                               node.text, name_of_map(), first->second));
    }
    frame.pending = YamlEntry{std::move(node.text), std::move(node.place), {}};
  }

  void attach(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (!frame.node.is_map()) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    frame.pending->value = std::move(node);
    frame.node.entries.push_back(std::move(*frame.pending));
    frame.pending.reset();
  }

  // The innermost map as messages call it: 'batch', 'cases[1]'.
  [[nodiscard]] std::string name_of_map() const {
    std::string indices;
    for (std::size_t i = stack_.size() - 1; i-- > 0;) {
      const Frame& around = stack_[i];
      if (around.pending) {
        return fmt::format("'{}{}'", around.pending->key, indices);
      }
      indices = fmt::format("[{}]{}", around.node.items.size(), indices);
    }
    return indices.empty() ? "the top level" : fmt::format("'{}'", indices);
  }

  const std::string* text_;
  std::shared_ptr<const SourceText> source_;
  Layout layout_;
  std::size_t outer_levels_;
  std::vector<Frame> stack_;
  std::optional<YamlNode> root_;
  Diagnostics diagnostics_;
  int last_line_ = 0;
  std::size_t last_byte_ = 0;
  int last_column_ = 0;
};

// ---- Operations on trees ----

[[nodiscard]] YamlEntry* find_entry(YamlNode& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const YamlEntry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

struct PathKey {
  std::string name;
  Place place;
};

[[nodiscard]] Place place_in(const std::shared_ptr<const SourceText>& source,
                             std::string_view assignment, std::size_t byte) {
  return {source, 1, static_cast<int>(count_columns(assignment.substr(0, byte))) + 1};
}

// Splits the part of the assignment before `end` at its dots.
[[nodiscard]] std::vector<PathKey> split_path(const std::string& assignment, std::size_t end,
                                              const std::shared_ptr<const SourceText>& source) {
  std::vector<PathKey> keys;
  for (std::size_t start = 0; start <= end;) {
    const std::size_t stop = std::min(assignment.find('.', start), end);
    Place place = place_in(source, assignment, start);
    if (stop == start) {
      fail(std::move(place), end == 0 ? "missing path before '='" : "empty key in the path");
    }
    if (keys.size() == most_levels) {
      fail(std::move(place), fmt::format("nested more than {} levels deep", most_levels));
    }
    keys.push_back({assignment.substr(start, stop - start), std::move(place)});
    start = stop + 1;
  }
  return keys;
}

// Reads what stands behind the '=' where it stands, so that its places are right.
[[nodiscard]] YamlNode parse_value(const std::string& assignment, std::size_t start,
                                   const std::shared_ptr<const SourceText>& source,
                                   std::size_t outer_levels) {
  const std::string text = std::string(start, ' ') + assignment.substr(start);
  std::optional<YamlNode> value =
      TreeBuilder(text, source, TreeBuilder::Layout::one_line, outer_levels).build();
  if (!value) {
    fail(place_in(source, assignment, start), "missing value after '='", "write null for none");
  }
  // A plain text takes all that is there; what is left over was a comment.
  if (value->is_scalar() && !value->quoted) {
    const std::size_t first = text.find_first_not_of(" \t");
    const std::size_t last = text.find_last_not_of(" \t");
    if (last - first + 1 != value->text.size()) {
      fail(value->place, "' #' starts a comment", "quote the value");
    }
  }
  return *std::move(value);
}

YamlEntry& add_entry(YamlNode& map, const PathKey& key) {
  YamlNode nothing;
  nothing.place = key.place;
  return map.entries.emplace_back(YamlEntry{key.name, key.place, std::move(nothing)});
}

// Makes `node` a map that the next key of a path can be looked up in.
void make_map(YamlNode& node, const PathKey& key) {
  if (node.is_sequence()) {
    fail(key.place, fmt::format("'{}' is a list; set the whole list instead", key.name));
  }
  if (node.is_map()) {
    return;
  }
  YamlNode map;
  map.kind = YamlNode::Kind::map;
  map.place = node.place;
  if (node.is_scalar()) {
    const Place place = node.place;
    map.entries.push_back({"extends", place, std::move(node)});
  }
  node = std::move(map);
}

} // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const YamlEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

YamlNode parse_yaml(const std::string& text, const std::string& name, std::size_t most_bytes) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const std::string content = text.starts_with(byte_order_mark) ? text.substr(3) : text;
  const auto source = make_source(content, name, most_bytes);
  std::optional<YamlNode> root = TreeBuilder(content, source, TreeBuilder::Layout::any, 0).build();
  if (!root || root->kind == YamlNode::Kind::null) {
    fail(Place{source, 0, 0}, "the document is empty");
  }
  return *std::move(root);
}

YamlNode load_yaml(const std::filesystem::path& path, std::size_t most_bytes) {
  return parse_yaml(read_file(path, most_bytes), path.string(), most_bytes);
}

void merge_over(YamlNode& base, const YamlNode& over) {
  if (!base.is_map() || !over.is_map()) {
    base = over;
    return;
  }
  base.place = over.place;
  std::map<std::string, std::size_t, std::less<>> index_of;
  for (std::size_t i = 0; i < base.entries.size(); ++i) {
    index_of.emplace(base.entries[i].key, i);
  }
  for (const YamlEntry& entry : over.entries) {
    const auto found = index_of.find(entry.key);
    if (found == index_of.end()) {
      base.entries.push_back(entry);
    } else {
      YamlEntry& old = base.entries[found->second];
      old.key_place = entry.key_place;
      merge_over(old.value, entry.value);
    }
  }
}

void set_path(YamlNode& root, const std::string& assignment) {
  const auto source = make_source(assignment, "--set", most_yaml_bytes);
  if (source->lines.size() > 1 || assignment.ends_with('\n')) {
    fail(Place{source, 0, 0}, "an assignment must be a single line");
  }
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    fail(place_in(source, assignment, assignment.size()), "missing '='", "write path=value");
  }
  const std::vector<PathKey> keys = split_path(assignment, equals, source);
  YamlNode value = parse_value(assignment, equals + 1, source, keys.size());

  if (!root.is_map() && root.kind != YamlNode::Kind::null) {
    fail(keys.front().place, "nothing can be set: the file is not a map");
  }
  root.kind = YamlNode::Kind::map;
  YamlNode* map = &root;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    YamlEntry* entry = find_entry(*map, keys[i].name);
    if (entry == nullptr) {
      entry = &add_entry(*map, keys[i]);
    }
    make_map(entry->value, keys[i]);
    map = &entry->value;
  }
  YamlEntry* entry = find_entry(*map, keys.back().name);
  if (entry == nullptr) {
    entry = &add_entry(*map, keys.back());
  }
  entry->key_place = keys.back().place;
  entry->value = std::move(value);
}

} // namespace spillway
