#include "weft/redis/shipped_commands.h"

#include <array>
#include <cstring>

#include "weft/base/hash.h"
#include "weft/base/marks.h"
#include "weft/redis/client.h"
#include "weft/redis/keyspace.h"

namespace weft {

namespace {

constexpr uint32_t kReplyBytesMax = 4096;
constexpr size_t kStringBytesMax = 4096;  // longer ones are not sent to other nodes by who executes it

// Numbers as they are, bytes after their length.
class FieldWriter {
 public:
  template <class T>
  void put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_bytes(std::string_view bytes) {
    put(static_cast<uint32_t>(bytes.size()));
    out_.append(bytes);
  }
  std::string& text() { return out_; }

 private:
  std::string out_;
};

// After the end it reads zeros, and ok() is false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  size_t left() const { return rest_.size(); }

  template <class T>
  T take() {
    T value{};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      rest_ = {};
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view take_bytes() {
    const auto bytes = take<uint32_t>();
    if (bytes > rest_.size()) ok_ = false;
    const std::string_view out = rest_.substr(0, ok_ ? bytes : 0);
    rest_.remove_prefix(out.size());
    return out;
  }
  // Of items that take at least `least` bytes each.
  uint32_t take_count(size_t least) {
    const auto count = take<uint32_t>();
    if (count > rest_.size() / least) ok_ = false;
    return ok_ ? count : 0;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// A key of the commands; each is here once.
struct CommandKey {
  std::string_view name;
  bool read = false, write = false;
};

// The arguments of the procedure.
struct ShippedCommands {
  struct Watched {
    std::string_view key;
    Version version;
    Epoch epoch;
  };
  struct One {
    const Command* command;
    size_t first, count;  // in words
  };
  struct Batch {
    int version = 2;
    uint32_t first_index = 0;  // of its first command in its list
    bool exec = false;
    size_t watched = 0, commands = 0;  // how many
  };

  TableId table;
  int64_t now_us = 0;
  size_t string_bytes_max = 0;
  std::vector<Batch> batches;
  std::vector<Watched> watched;
  std::vector<One> commands;
  std::vector<std::string_view> words;
  std::vector<CommandKey> keys;

  Arguments arguments(const One& one) const { return {words.data() + one.first, one.count}; }
  // False: they are not what encode_commands() makes.
  bool decode(std::string_view bytes);
  // nullptr: it is none of theirs.
  const CommandKey* find(std::string_view name) const {
    const uint8_t place = places_[place_of(name)];
    return place == 0 ? nullptr : &keys[place - size_t{1}];
  }

 private:
  static constexpr size_t kPlaces = 512;
  static_assert(StoredProcedure::kKeysMax < UINT8_MAX && StoredProcedure::kKeysMax < kPlaces / 2);

  size_t place_of(std::string_view name) const {
    size_t place = hash_bytes(name.data(), name.size(), 0) % kPlaces;
    while (places_[place] != 0 && keys[places_[place] - size_t{1}].name != name) place = (place + 1) % kPlaces;
    return place;
  }
  bool note(std::string_view name, bool read, bool write) {
    const size_t place = place_of(name);
    if (places_[place] == 0) {
      if (keys.size() == StoredProcedure::kKeysMax) return false;
      keys.push_back({name});
      places_[place] = static_cast<uint8_t>(keys.size());
    }
    CommandKey& key = keys[places_[place] - size_t{1}];
    key.read |= read;
    key.write |= write;
    return true;
  }
  bool decode_command(FieldReader& from);

  std::array<uint8_t, kPlaces> places_{};  // index in keys + 1
};

bool ShippedCommands::decode_command(FieldReader& from) {
  const uint32_t count = from.take_count(sizeof(uint32_t));
  One one{nullptr, words.size(), count};
  for (uint32_t i = 0; i < count; ++i) words.push_back(from.take_bytes());
  if (!from.ok() || count == 0) return false;
  one.command = find_command(arguments(one));
  if (one.command == nullptr || !is_shipped(*one.command) || !fits(*one.command, count)) return false;
  const bool reads = one.command->reads == nullptr || one.command->reads(arguments(one));
  const bool writes = (one.command->flags & kWrites) != 0;
  bool room = true;
  for_each_key(*one.command, arguments(one), [&](std::string_view key) { room = room && note(key, reads, writes); });
  commands.push_back(one);
  return room;
}

bool ShippedCommands::decode(std::string_view bytes) {
  FieldReader from(bytes);
  table = TableId(from.take<uint16_t>());
  now_us = from.take<int64_t>();
  string_bytes_max = from.take<uint32_t>();
  for (uint32_t left = from.take_count(1); left > 0; --left) {
    Batch batch;
    batch.version = from.take<uint8_t>();
    batch.exec = from.take<uint8_t>() != 0;
    batch.first_index = from.take<uint32_t>();
    batch.watched = from.take_count(sizeof(uint32_t));
    for (size_t i = 0; i < batch.watched; ++i) {
      Watched& key = watched.emplace_back();
      key.version = Version(from.take<uint64_t>());
      key.epoch = Epoch(from.take<uint32_t>());
      key.key = from.take_bytes();
      if (!from.ok() || !note(key.key, true, false)) return false;
    }
    batch.commands = from.take_count(sizeof(uint32_t));
    for (size_t i = 0; i < batch.commands; ++i) {
      if (!decode_command(from)) return false;
    }
    batches.push_back(batch);
  }
  return from.at_end();
}

// The values of the keys while the commands run.
class ShippedValues final : public KeyValues {
 public:
  ShippedValues(const ShippedCommands& commands, std::span<const Value> values)
      : commands_(commands), states_(commands.keys.size()) {
    size_t next = 0;
    for (size_t i = 0; i < states_.size(); ++i) {
      if (commands.keys[i].read) states_[i].read = values[next++];
    }
  }

  Value get(std::string_view name) override {
    const CommandKey* const key = commands_.find(name);
    if (key == nullptr) return refused();
    const State& state = states_[index(key)];
    if (state.written == Written::kNothing) return key->read ? state.read : refused();
    Value value = state.read;
    value.found = state.written == Written::kPut;
    value.bytes = state.stored;
    value.length = state.stored.size();
    return value;
  }
  Code put(std::string_view name, std::string_view stored, int64_t deadline_ms) override {
    const CommandKey* const key = commands_.find(name);
    if (key == nullptr || !key->write) return Code::kAskInstead;
    State& state = states_[index(key)];
    state.written = Written::kPut;
    state.stored = stored;
    state.deadline_ms = deadline_ms;
    return Code::kOk;
  }
  Code erase(std::string_view name) override {
    const CommandKey* const key = commands_.find(name);
    if (key == nullptr || !key->write || !key->read) {
      WEFT_MARK_OUTSIDE("an expired key is found where its command was shipped");
      return Code::kAskInstead;
    }
    State& state = states_[index(key)];
    state.written = Written::kErased;
    state.stored.clear();
    state.deadline_ms = kNoDeadline;
    return Code::kOk;
  }

  size_t string_bytes_max() const override { return kStringBytesMax; }

  void write(StoredProcedure::Writes& writes) const {
    for (const CommandKey& key : commands_.keys) {
      const State& state = states_[index(&key)];
      if (state.written == Written::kPut) writes.put(commands_.table, key.name, state.stored);
      if (state.written == Written::kErased && state.read.found) writes.erase(commands_.table, key.name);
    }
  }
  void put_deadlines(FieldWriter& to) const {
    uint32_t count = 0;
    for (const State& state : states_) count += state.deadline_ms != kNoDeadline ? 1 : 0;
    to.put(count);
    for (const CommandKey& key : commands_.keys) {
      const State& state = states_[index(&key)];
      if (state.deadline_ms == kNoDeadline) continue;
      to.put(state.deadline_ms);
      to.put_bytes(key.name);
    }
  }

 private:
  enum class Written : uint8_t { kNothing, kPut, kErased };
  struct State {
    Value read;
    Written written = Written::kNothing;
    std::string stored;
    int64_t deadline_ms = kNoDeadline;
  };
  size_t index(const CommandKey* key) const { return static_cast<size_t>(key - commands_.keys.data()); }
  static Value refused() {
    Value value;
    value.code = Code::kAskInstead;
    return value;
  }

  const ShippedCommands& commands_;
  std::vector<State> states_;
};

void redis_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  ShippedCommands commands;
  if (!commands.decode(arguments)) return;
  for (const CommandKey& key : commands.keys) {
    if (key.read) {
      keys.add(commands.table, key.name, key.write ? Intent::kUpdate : Intent::kRead);
    } else {
      keys.will_write(commands.table, key.name);
    }
  }
}

// One run of the procedure.
struct Execution {
  const ShippedCommands& commands;
  ShippedValues values;
  std::string scratch;
  FieldWriter replies;
  uint64_t hits = 0, misses = 0;
  size_t next_command = 0, next_watched = 0;

  Code run(const ShippedCommands::Batch& batch);
  Code run_commands(const ShippedCommands::Batch& batch, Keyspace& keys);
};

// As in RedisFrontend::check_watched.
Code Execution::run(const ShippedCommands::Batch& batch) {
  Keyspace keys(&values, commands.now_us, commands.string_bytes_max, &scratch);
  for (size_t i = 0; i < batch.watched; ++i) {
    const ShippedCommands::Watched& watched = commands.watched[next_watched++];
    const Value value = values.get(watched.key);
    if (value.code != Code::kOk) return value.code;
    const bool same = value.version == watched.version && value.epoch == watched.epoch &&
                      keys.find(watched.key).exists == value.found;
    if (keys.code() != Code::kOk) return keys.code();
    if (!same) return Code::kApplication;
  }
  const Code code = run_commands(batch, keys);
  hits += keys.hits();
  misses += keys.misses();
  return code;
}

Code Execution::run_commands(const ShippedCommands::Batch& batch, Keyspace& keys) {
  std::string reply;
  RespErrors errors;
  RespWriter writer(&reply, kReplyBytesMax);
  writer.set_version(batch.version);
  writer.set_errors(&errors);
  for (size_t i = 0; i < batch.commands; ++i) {
    const ShippedCommands::One& one = commands.commands[next_command++];
    errors.command = batch.first_index + i;
    keys.set_counts((one.command->flags & kWrites) == 0);
    one.command->data(keys, commands.arguments(one), writer);
    if (keys.code() != Code::kOk) return keys.code();
    if (keys.paused() || writer.over()) return Code::kAskInstead;
  }
  replies.put_bytes(reply);
  replies.put(static_cast<uint32_t>(errors.seen.size()));
  for (const auto& [command, word] : errors.seen) {
    replies.put(static_cast<uint32_t>(command));
    replies.put_bytes(word);
  }
  return Code::kOk;
}

Code redis_execute(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  ShippedCommands commands;
  if (!commands.decode(arguments)) return Code::kInvalidArgument;
  Execution execution{commands, ShippedValues(commands, values), {}, {}};
  for (const ShippedCommands::Batch& batch : commands.batches) {
    const Code code = execution.run(batch);
    if (code != Code::kOk) return code;
  }
  execution.values.write(writes);
  execution.replies.put(execution.hits);
  execution.replies.put(execution.misses);
  execution.values.put_deadlines(execution.replies);
  writes.reply(execution.replies.text());
  return Code::kOk;
}

}  // namespace

bool is_shipped(const Command& command) {
  return command.data != nullptr && command.cost == nullptr && command.keys.first != 0;
}

size_t encoded_bytes(Arguments arguments) {
  size_t bytes = sizeof(uint32_t);
  for (const std::string_view argument : arguments) bytes += sizeof(uint32_t) + argument.size();
  return bytes;
}

std::string encode_commands(TableId table, int64_t now_us, size_t string_bytes_max,
                            std::span<const CommandBatch> batches) {
  FieldWriter out;
  out.put(table.value);
  out.put(now_us);
  out.put(static_cast<uint32_t>(string_bytes_max));
  out.put(static_cast<uint32_t>(batches.size()));
  for (const CommandBatch& batch : batches) {
    const Client& client = *batch.client;
    out.put(static_cast<uint8_t>(client.version));
    out.put(static_cast<uint8_t>(batch.exec));
    out.put(static_cast<uint32_t>(batch.first));
    out.put(static_cast<uint32_t>(batch.exec ? client.watched.size() : 0));
    for (const WatchedKey& watched : client.watched) {
      if (!batch.exec) break;
      out.put(watched.version.value);
      out.put(watched.epoch.value);
      out.put_bytes(watched.key);
    }
    out.put(static_cast<uint32_t>(batch.count));
    for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
      const Arguments arguments = batch.list->arguments(i);
      out.put(static_cast<uint32_t>(arguments.size()));
      for (const std::string_view argument : arguments) out.put_bytes(argument);
    }
  }
  return std::move(out.text());
}

bool CommandReplies::decode(std::string_view bytes, std::span<const CommandBatch> batches, CommandReplies* out) {
  FieldReader from(bytes);
  for (const CommandBatch& of : batches) {
    Batch& batch = out->batches.emplace_back();
    batch.reply = from.take_bytes();
    for (uint32_t left = from.take_count(2 * sizeof(uint32_t)); left > 0; --left) {
      const auto command = from.take<uint32_t>();
      if (command < of.first || command >= of.first + of.count) return false;
      batch.errors.emplace_back(command, from.take_bytes());
    }
  }
  out->hits = from.take<uint64_t>();
  out->misses = from.take<uint64_t>();
  for (uint32_t left = from.take_count(sizeof(int64_t)); left > 0; --left) {
    const auto deadline_ms = from.take<int64_t>();
    out->deadlines.emplace_back(from.take_bytes(), deadline_ms);
  }
  return from.at_end();
}

StoredProcedure redis_procedure() {
  return {.name = "redis", .keys = redis_keys, .execute = redis_execute, .reply_bytes_max = kReplyBytesMax};
}

}  // namespace weft
