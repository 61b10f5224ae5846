from pegboard.management.agent_command import AgentCommand


class Command(AgentCommand):
    name = "publish"
