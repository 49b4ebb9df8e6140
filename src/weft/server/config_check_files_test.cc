// Errors of the files that a configuration names and of the secrets in it, with their exact text: certificates, keys,
// passwords, and where they are required.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "weft/server/config.h"
#include "weft/server/config_keys.h"
#include "weft/server/config_testing.h"
#include "weft/server/exposed.h"
#include "weft/wires/tcp/tls_testing.h"

namespace weft {
namespace {

TEST(ConfigFileErrors, HttpElsewhereThanOnLoopback) {
  const std::string expected = "), expected that, or http.open = true: whoever reaches the address may look";
  EXPECT_EQ(errors_with("[http]\nlisten = \"10.0.0.1:8379\""),
            Texts{"n.toml:12:10: http.listen is \"10.0.0.1:8379\" (it is not a loopback address, and http.password and "
                  "[http.tls] are missing" +
                  expected});
  EXPECT_EQ(errors_with("[http]\nlisten = \"0.0.0.0:8379\"\npassword = \"secret\""),
            Texts{"n.toml:12:10: http.listen is \"0.0.0.0:8379\" (it is not a loopback address, and [http.tls] is "
                  "missing" +
                  expected});
  EXPECT_EQ(errors_with("[http]\nlisten = \"10.0.0.1:8379\"\nopen = true"), Texts{});
  EXPECT_EQ(errors_with("[http]\nlisten = \"[::1]:8379\"\npassword = \"secret\""), Texts{});
  EXPECT_EQ(errors_with("[http]\nlisten = \"[::1]:8379\"\npassword = \"\""),
            Texts{"n.toml:13:12: http.password is a string (it is empty), expected a password, or no such key"});
  EXPECT_EQ(errors_with("[http.tls]\ncertificate = \"/no/such.pem\""),
            (Texts{"n.toml:11:1: http.tls.key is missing, expected the path of a PEM file",
                   "n.toml:12:15: http.tls.certificate is \"/no/such.pem\" (No such file or directory), expected the "
                   "path of a PEM file"}));
}

TEST(ConfigFileErrors, APasswordIsNeverShown) {
  const auto with = [](const std::string& auth) {
    return errors_between(kTcp + "[membership]\nkind = \"zookeeper\"\nhosts = \"a:1\"\nauth = " + auth);
  };
  for (const auto& [auth, found] : Cases{{"\"secret\"", "a string (there is no ':'), expected user:password"},
                                         {"\":secret\"", "a string (the user is empty), expected user:password"},
                                         {"\"secret:\"", "a string (the password is empty), expected user:password"},
                                         {"\"\"", "a string (it is empty), expected user:password"},
                                         {"12345", "an integer, expected a string"},
                                         {"1.25", "a float, expected a string"}}) {
    EXPECT_EQ(with(auth), Texts{"n.toml:10:8: membership.auth is " + found});
  }
  EXPECT_EQ(errors_between(kTcp + kSupervised + "[client]\npassword = \"\""),
            Texts{"n.toml:10:12: client.password is a string (it is empty), expected a password, or no such key"});
}

TEST(ConfigFileErrors, APasswordsFile) {
  const ConfigFolder folder;
  folder.write("empty", "\nsecret\n");
  folder.write("long", std::string(kPasswordBytesMax + 1, 'x') + "\n");
  folder.write("longest", std::string(kPasswordBytesMax, 'x') + "\r\n");
  folder.write("fine", "secret\n");
  const auto with = [&](const std::string& path, const std::string& more = "") {
    return joined(errors_between(kTcp + kSupervised + "[client]\npassword_file = \"" + path + "\"\n" + more));
  };
  const auto says = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("n.toml:10:17: client.password_file is ")) << text;
  };
  const std::string expected = "expected the path of a file whose first line is a password";
  EXPECT_EQ(with(folder / "fine"), "");
  EXPECT_EQ(with(folder / "longest"), "");
  says(with(folder / "missing"), "(No such file or directory), " + expected);
  says(with(folder / "."), "(it is no regular file), " + expected);
  says(with(""), "(it is empty), " + expected);
  says(with(folder / "empty"), "(its first line is empty), " + expected);
  says(with(folder / "long"), "(its first line has more than 4096 bytes), " + expected);
  says(with(folder / "fine", "password = \"other\""), "given, expected only with no client.password");
}

TEST(ConfigFileErrors, TlsFiles) {
  const ConfigFolder folder;
  const Credential authority("authority"), node("node", &authority, "URI:weft://orders/node/0");
  const Credential other("other", &authority);
  ASSERT_TRUE(authority.write_certificate(folder / "ca.pem"));
  ASSERT_TRUE(node.write_certificate(folder / "node.pem"));
  ASSERT_TRUE(node.write_key(folder / "node.key"));
  ASSERT_TRUE(other.write_key(folder / "other.key"));
  folder.write("garbage", "no certificate\n");
  std::filesystem::create_directory(folder / "folder");
  const auto load = [&](const std::string& files) {
    return load_config(folder.write("n.toml", std::string(kMinimalConfig) + "[fabric.tls]\n" + files));
  };
  const std::string at = folder / "n.toml";

  const LoadedConfig good = load("ca = \"ca.pem\"\ncertificate = \"node.pem\"\nkey = \"./node.key\"");
  EXPECT_EQ(good.errors, Texts{});
  EXPECT_EQ(good.config.fabric.tls.key, folder / "node.key");
  const LoadedConfig moved = parse_config(to_toml(good.config), "/elsewhere/n.toml");
  EXPECT_EQ(moved.errors, Texts{});
  EXPECT_EQ(moved.config.fabric.tls.ca, folder / "ca.pem");

  EXPECT_EQ(load("ca = \"ca.pem\"").errors,
            (Texts{at + ":11:1: fabric.tls.certificate is missing, expected the path of a PEM file",
                   at + ":11:1: fabric.tls.key is missing, expected the path of a PEM file"}));
  EXPECT_EQ(load("ca = \"gone.pem\"\ncertificate = \"\"\nkey = \"folder\"").errors,
            (Texts{at + ":12:6: fabric.tls.ca is \"" + (folder / "gone.pem") +
                       "\" (No such file or directory), expected the path of a PEM file",
                   at + ":13:15: fabric.tls.certificate is \"\" (it is empty), expected the path of a PEM file",
                   at + ":14:7: fabric.tls.key is \"" + (folder / "folder") +
                       "\" (Is a directory), expected the path of a PEM file"}));
  EXPECT_EQ(load("ca = \"ca.pem\"\ncertificate = \"node.pem\"\nkey = \"other.key\"").errors,
            Texts{at + ":14:7: fabric.tls.key: key file " + (folder / "other.key") + ": key values mismatch"});
  const auto starts = [&](const std::string& files, const std::string& begin) {
    const Texts errors = load(files).errors;
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_TRUE(errors[0].starts_with(at + begin)) << errors[0];
  };
  starts("ca = \"garbage\"\ncertificate = \"node.pem\"\nkey = \"node.key\"", ":12:6: fabric.tls.ca: CA file ");
  starts("ca = \"ca.pem\"\ncertificate = \"garbage\"\nkey = \"node.key\"",
         ":13:15: fabric.tls.certificate: certificate file ");
  starts("ca = \"ca.pem\"\ncertificate = \"node.pem\"\nkey = \"garbage\"", ":14:7: fabric.tls.key: key file ");
}

TEST(ConfigFileErrors, WhoseCertificatesAre) {
  const ConfigFolder folder;
  const Credential authority("authority"), others("others");
  const Credential node("node", &authority, "URI:weft://orders/node/0"),
      other("other", &authority, "URI:weft://orders/node/1");
  ASSERT_TRUE(authority.write_certificate(folder / "ca.pem") && others.write_certificate(folder / "others.pem"));
  for (const auto& [name, one] : {std::pair("node", &node), std::pair("other", &other)}) {
    ASSERT_TRUE(one->write_certificate(folder / (name + std::string(".pem"))));
    ASSERT_TRUE(one->write_key(folder / (name + std::string(".key"))));
  }
  const auto load = [&](const std::string& name, const std::string& more) {
    return load_config(folder.write("n.toml", std::string(kMinimalConfig) +
                                                  "[fabric.tls]\nca = \"ca.pem\"\ncertificate = \"" + name +
                                                  ".pem\"\nkey = \"" + name + ".key\"\n" + more));
  };
  const std::string at = folder / "n.toml";
  EXPECT_EQ(load("node", "").errors, Texts{});
  EXPECT_EQ(load("other", "any_node = true").errors, Texts{});
  EXPECT_EQ(
      load("other", "").errors,
      Texts{at + ":13:15: fabric.tls.certificate is " + shown(folder / "other.pem") +
            " (it names weft://orders/node/1, expected weft://orders/node/0), expected that among its alternative "
            "names, or fabric.tls.any_node = true"});

  // One authority for nodes and clients: only with names, and never silently.
  const std::string clients = "[client.tls]\ncertificate = \"node.pem\"\nkey = \"node.key\"\nca = ";
  const LoadedConfig one = load("node", clients + "\"ca.pem\"");
  EXPECT_EQ(one.errors, Texts{});
  ASSERT_EQ(exposures(one.config).size(), 1U);
  EXPECT_EQ(exposures(one.config)[0].key, "client.tls.ca");
  const LoadedConfig two = load("node", clients + "\"others.pem\"");
  EXPECT_EQ(two.errors, Texts{});
  EXPECT_EQ(exposures(two.config).size(), 0U);
  EXPECT_EQ(load("node", "any_node = true\n" + clients + "\"others.pem\"").errors, Texts{});
  EXPECT_EQ(
      load("node", "any_node = true\n" + clients + "\"ca.pem\"").errors,
      Texts{at + ":15:12: fabric.tls.any_node is true, expected false with client.tls.ca of the same authority as "
                 "fabric.tls.ca: who has a certificate for that could be any node"});
}

}  // namespace
}  // namespace weft
