"""Readiness, trees and tool lists of agents, as pages show them."""
